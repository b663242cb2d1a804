//go:build !linux || portable

package codepages

// ReleaseLater does nothing on this system.
func ReleaseLater() {}

// Mapped is unknown on this system.
func Mapped(int) int64 { return 0 }
