package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Every part of every run is done exactly once before run returns, whether
// helpers are there, on their way, or gone.
func TestCrewDoesEveryPartOnce(t *testing.T) {
	defer goleak.VerifyNone(t) // helpers end by themselves
	for _, threads := range []int{2, 3, 8} {
		c := newCrew(threads)
		done := make([]atomic.Int32, threads)
		for i := range 2000 {
			parts := 1 + i%threads
			c.run(parts, func(part int) { done[part].Add(1) })
			for p := range done {
				want := int32(0)
				if p < parts {
					want = 1
				}
				if n := done[p].Swap(0); n != want {
					t.Fatalf("%d threads, run %d of %d parts: part %d done %d times", threads, i, parts, p, n)
				}
			}
			if i%500 == 0 {
				waitForNobody(t, c)
			}
		}
	}
}

// waitForNobody returns when no helper is left.
func waitForNobody(t *testing.T, c *crew) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for _, h := range c.helpers {
		for h.here.Load() {
			if time.Now().After(deadline) {
				t.Fatal("a helper without work does not end")
			}
			runtime.Gosched()
		}
	}
}

// A helper that never comes does not hold up the caller.
func TestCrewNeedsNoHelper(t *testing.T) {
	c := newCrew(3)
	for _, h := range c.helpers {
		h.here.Store(true)
	}
	n := 0
	c.run(3, func(int) { n++ })
	if n != 3 {
		t.Errorf("%d parts done, want 3", n)
	}
}

func TestCrewDoesNotAllocate(t *testing.T) {
	c, work := newCrew(2), func(int) {}
	if n := testing.AllocsPerRun(200, func() { c.run(2, work) }); n != 0 {
		t.Errorf("%v allocations per run", n)
	}
}
