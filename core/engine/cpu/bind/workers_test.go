package bind

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Every part of every run is done exactly once before run returns, whether
// workers run, are starting, or have ended.
func TestWorkerPoolDoesEveryPartOnce(t *testing.T) {
	defer goleak.VerifyNone(t) // workers end by themselves
	for _, threads := range []int{2, 3, 8} {
		c := NewWorkerPool(threads)
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
				waitForIdle(t, c)
			}
		}
	}
}

// A core computes the part that it computed last, and what is left if it computed none.
func TestPartsStayWithTheirCores(t *testing.T) {
	for _, c := range []struct {
		last, cores []int // cores of the parts in the last run, and in the order in which they take parts of this one
		want        []int
	}{
		{[]int{3, 7}, []int{7, 3}, []int{1, 0}},
		{[]int{3, 7}, []int{3, 3}, []int{0, 1}},
		{[]int{3, 7}, []int{5, 7}, []int{0, 1}},
		{[]int{3, 3, 9}, []int{9, 3, 3}, []int{2, 0, 1}},
		{[]int{-1, -1}, []int{-1, -1}, []int{0, 1}}, // a system that does not tell
	} {
		takers := make([]atomic.Uint64, len(c.last))
		for part, core := range c.last {
			takers[part].Store(taker(41, core))
		}
		for i, core := range c.cores {
			if part := choose(takers, 42, core); part != c.want[i] {
				t.Errorf("parts of cores %v: core %d, number %d of %v, takes part %d, want %d", c.last, core, i, c.cores, part, c.want[i])
			}
		}
	}
}

// What a thread has for scratch is not what another one had in the step before.
func TestThreadsKeepTheirWorkspace(t *testing.T) {
	m := &Memory{Workers: NewWorkerPool(3), Work: make([]byte, 3*1000)}
	begin := func(room []byte) int { return cap(m.Work) - cap(room) }
	for thread := range 3 {
		small, large := m.ofThread(thread, 64), m.ofThread(thread, 960)
		if begin(small) != begin(large) {
			t.Errorf("thread %d: 64 bytes begin at %d, 960 at %d", thread, begin(small), begin(large))
		}
		if at := begin(small); at != 960*thread || len(large) != 960 {
			t.Errorf("thread %d: %d bytes begin at %d, want 960 at %d", thread, len(large), at, 960*thread)
		}
	}
	if at := begin((&Memory{Workers: NewWorkerPool(4), Work: m.Work}).ofThread(1, 1500)); at != 1500 { // two of four threads work
		t.Errorf("1500 bytes of the second thread begin at %d", at)
	}
}

// waitForIdle returns when no worker runs.
func waitForIdle(t *testing.T, c *WorkerPool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, h := range c.workers {
		for h.running.Load() {
			if time.Now().After(deadline) {
				t.Fatal("a worker without work does not end")
			}
			runtime.Gosched()
		}
	}
}

// A worker that never starts does not delay the caller.
func TestWorkerPoolNeedsNoWorker(t *testing.T) {
	c := NewWorkerPool(3)
	for _, h := range c.workers {
		h.running.Store(true)
	}
	n := 0
	c.run(3, func(int) { n++ })
	if n != 3 {
		t.Errorf("%d parts done, want 3", n)
	}
}

func TestWorkerPoolDoesNotAllocate(t *testing.T) {
	c, work := NewWorkerPool(2), func(int) {}
	if n := testing.AllocsPerRun(200, func() { c.run(2, work) }); n != 0 {
		t.Errorf("%v allocations per run", n)
	}
}

// Every thing is in one share, and shares consist of whole units.
func TestShareDividesIntoUnits(t *testing.T) {
	for threads, want := range map[int][]int{1: {0, 0, 0, 0, 0}, 2: {0, 0, 1, 1, 1}, 3: {0, 0, 1, 1, 2}, 8: {0, 0, 1, 1, 2}} {
		parts := 0
		by := []int{-1, -1, -1, -1, -1}
		all := NewWorkerPool(threads).Share(len(by), 2, func(lo, hi int) func() {
			me := parts
			parts++
			return func() {
				for i := lo; i < hi; i++ {
					by[i] += 1 + me
				}
			}
		})
		if all(); !slices.Equal(by, want) {
			t.Errorf("%d threads: shares %v, want %v", threads, by, want)
		}
	}
}
