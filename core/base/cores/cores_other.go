//go:build !linux || portable

package cores

// Current returns -1: the core is not known.
func Current() int { return -1 }

// Thread returns 0.
func Thread() int { return 0 }

// Leave does nothing.
func Leave(_, _ int, _ []int) {}
