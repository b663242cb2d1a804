//go:build !portable

package tcp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func coresOf(cpus ...int) *unix.CPUSet {
	s := &unix.CPUSet{}
	for _, c := range cpus {
		s.Set(c)
	}
	return s
}

func TestNextCore(t *testing.T) {
	for _, c := range []struct {
		from           int
		allowed, taken *unix.CPUSet
		want           int
	}{
		{0, coresOf(0, 1), coresOf(0), 1},
		{1, coresOf(0, 1), coresOf(1), 0},
		{0, coresOf(0, 1), coresOf(0, 1), 0},
		{0, coresOf(0), coresOf(0), 0},
		{2, coresOf(0, 2, 5, 7), coresOf(2, 5), 7},
		{900, coresOf(3, 900), coresOf(900), 3},
	} {
		if got := nextCore(c.from, c.allowed, c.taken); got != c.want {
			t.Errorf("from %d: %d, want %d", c.from, got, c.want)
		}
	}
}

// The first rank on a core stays, the others move; a rank that has not written its core
// is ignored.
func TestCrowdedCores(t *testing.T) {
	l := &local{b: New(), pages: make([]page, 5)}
	for r, cpu := range []uint32{4, 0, 4, 7} { // plus one; rank 4 is on another host
		l.pages[r] = make(page, pageSize)
		l.pages[r].cpu().Store(cpu)
	}
	for rank, want := range []bool{false, false, true, false} {
		l.b.group.Rank = rank
		taken, crowded := l.cores()
		if crowded != want || taken != *coresOf(3, 6) {
			t.Errorf("rank %d: crowded %v, cores %v", rank, crowded, taken)
		}
	}
}

// A thread that leaves its core keeps its affinity, and one that is bound to its core
// stays.
func TestLeaveKeepsAffinity(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Skipf("needs to know its cores: %v", err)
	}
	at := int(currentCPU()) - 1
	leave(at, coresOf(at))
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("allowed on %v, then on %v, %v", before, after, err)
	}
	if err := unix.SchedSetaffinity(0, coresOf(at)); err != nil {
		t.Skipf("needs to choose its core: %v", err)
	}
	if leave(at, coresOf(at)); int(currentCPU())-1 != at {
		t.Errorf("bound to core %d and now on core %d", at, currentCPU()-1)
	}
}
