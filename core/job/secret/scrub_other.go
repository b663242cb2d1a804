//go:build !linux

package secret

// scrub has nothing to do where no file shows what a process was started with.
func scrub(string) error { return nil }
