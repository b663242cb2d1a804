//go:build unix && (!linux || portable)

package host

// executablePath returns the path: only Linux can execute an open file. Elsewhere
// the file could be replaced between checksum and start.
func executablePath(p *program) string { return p.path }

// keepDescriptors keeps children from inheriting this process's descriptors, except
// those that are passed on purpose.
func keepDescriptors() { keepListed() }
