//go:build unix && !linux

package host

// executablePath is the path: only Linux can execute an open file, elsewhere
// the file could be exchanged between checksum and start.
func executablePath(p *program) string { return p.path }
