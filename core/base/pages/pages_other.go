//go:build !linux || portable

package pages

// Populate does nothing: memory gets its pages when it is touched.
func Populate([]byte) {}
