package kernel

import (
	"math"
	"slices"
	"testing"
)

// poisoned is scratch as a plan's workspace may hold it: whatever the step
// before left there, at worst NaN. Room that a kernel reads must be its own writing.
func poisoned[T Float](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(math.NaN())
	}
	return s
}

// exact is scratch of which the end is watched.
type exact[T Float] struct{ room, all []T }

// exactly returns n poisoned elements, with others behind them that are not to be written.
func exactly[T Float](n int) exact[T] {
	all := poisoned[T](n + 1024)
	return exact[T]{all[:n:n], all}
}

// written reports whether a kernel wrote there: the tests' data makes no NaN.
func written[T Float](v T) bool { return v == v }

func (e exact[T]) check(t *testing.T, what string) {
	t.Helper()
	for i, v := range e.all[len(e.room):] {
		if written(v) {
			t.Fatalf("%s: wrote element %d behind its scratch of %d", what, i, len(e.room))
		}
	}
}

// unused is how many elements lie in pages of 4 KiB, as the system counts memory,
// of which none was written.
func (e exact[T]) unused() int {
	n := 0
	for rest := e.room; len(rest) > 0; {
		page := rest[:min(1024, len(rest))]
		if rest = rest[len(page):]; !slices.ContainsFunc(page, written) {
			n += len(page)
		}
	}
	return n
}
