//go:build !linux || portable

package pages

// Populate does nothing: memory gets its pages when it is touched.
func Populate([]byte) {}

// Ready does nothing, as there is nothing to give back.
func Ready() {}

// GiveBackProgram does nothing: pages of the program stay until the system needs them for something else.
func GiveBackProgram() {}

// Join does nothing: the system decides how large pages are.
func Join([]byte) {}
