//go:build unix && !linux

package host

// executablePath is the path: only Linux can execute an open file, elsewhere
// the file could be exchanged between checksum and start.
func executablePath(p *program) string { return p.path }

// keepDescriptors keeps this process's descriptors from its children, but for
// those that a child is given on purpose.
func keepDescriptors() { keepListed() }
