package kerneltest

import (
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Poisoned is scratch as a plan's workspace may hold it: whatever the step
// before left there, at worst NaN. Room that a kernel reads must be its own writing.
func Poisoned[T kernel.Float](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(math.NaN())
	}
	return s
}

// exact is scratch of which the end is watched.
type exact[T kernel.Float] struct{ Room, all []T }

// Exactly returns n poisoned elements, with others behind them that are not to be written.
func Exactly[T kernel.Float](n int) exact[T] {
	all := Poisoned[T](n + 1024)
	return exact[T]{all[:n:n], all}
}

// written reports whether a kernel wrote there: the tests' data makes no NaN.
func written[T kernel.Float](v T) bool { return v == v }

func (e exact[T]) Check(t *testing.T, what string) {
	t.Helper()
	for i, v := range e.all[len(e.Room):] {
		if written(v) {
			t.Fatalf("%s: wrote element %d behind its scratch of %d", what, i, len(e.Room))
		}
	}
}

// Unused is how many elements lie in pages of 4 KiB, as the system counts memory,
// of which none was written.
func (e exact[T]) Unused() int {
	n := 0
	for rest := e.Room; len(rest) > 0; {
		page := rest[:min(1024, len(rest))]
		if rest = rest[len(page):]; !slices.ContainsFunc(page, written) {
			n += len(page)
		}
	}
	return n
}
