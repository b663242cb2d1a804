package kernel

import "math"

// poisoned is scratch as a plan's workspace may hold it: whatever the step
// before left there, at worst NaN. Room that a kernel reads must be its own writing.
func poisoned[T Float](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(math.NaN())
	}
	return s
}
