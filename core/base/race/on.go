//go:build race

package race

// Enabled reports whether the race detector is on, with which tests count no allocations
// and skip large buffers.
const Enabled = true
