//go:build !linux || portable

package codepages

// ReleaseLater does nothing on this system.
func ReleaseLater() {}
