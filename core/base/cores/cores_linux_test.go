//go:build !portable

package cores

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func set(cores ...int) *unix.CPUSet {
	s := &unix.CPUSet{}
	for _, c := range cores {
		s.Set(c)
	}
	return s
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		from    int
		allowed *unix.CPUSet
		taken   []int
		want    int
	}{
		{0, set(0, 1), []int{0}, 1},
		{1, set(0, 1), []int{1}, 0},
		{0, set(0, 1), []int{0, 1}, 0},
		{0, set(0), []int{0}, 0},
		{2, set(0, 2, 5, 7), []int{2, 5}, 7},
		{900, set(3, 900), []int{900}, 3},
	} {
		if got := next(c.from, c.allowed, c.taken); got != c.want {
			t.Errorf("from %d: %d, want %d", c.from, got, c.want)
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
	at := Current()
	Leave(Thread(), at, []int{at})
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("allowed on %v, then on %v, %v", before, after, err)
	}
	if err := unix.SchedSetaffinity(0, set(at)); err != nil {
		t.Skipf("needs to choose its core: %v", err)
	}
	if Leave(Thread(), at, []int{at}); Current() != at {
		t.Errorf("bound to core %d and now on core %d", at, Current())
	}
}

// One thread moves another one that computes. The system may move it back at once, so
// that it is seen on the other core in one of a hundred attempts suffices.
func TestLeaveMovesAnotherThread(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		t.Skipf("needs two cores: %v, %v", allowed, err)
	}
	thread := make(chan int)
	var stop atomic.Bool
	go func() {
		runtime.LockOSThread() // never unlocked
		thread <- Thread()
		for !stop.Load() {
		}
	}()
	defer stop.Store(true)
	id, first := <-thread, next(-1, &allowed, nil)
	second := next(first, &allowed, nil)
	for range 100 {
		if err := unix.SchedSetaffinity(id, set(first)); err != nil {
			t.Skipf("needs to choose the core of a thread: %v", err)
		}
		if err := unix.SchedSetaffinity(id, set(first, second)); err != nil {
			t.Fatal(err)
		}
		Leave(id, first, []int{first})
		var after unix.CPUSet
		if err := unix.SchedGetaffinity(id, &after); err != nil || after != *set(first, second) {
			t.Fatalf("allowed on %v afterwards, %v, want cores %d and %d", after, err, first, second)
		}
		if coreOf(t, id) == second {
			return
		}
	}
	t.Errorf("a thread on core %d never moved to core %d", first, second)
}

// coreOf is the core on which a thread of this process runs, or ran last, field 39 of its
// stat file (proc_pid_stat(5)).
func coreOf(t *testing.T, thread int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(thread) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	core, err := strconv.Atoi(strings.Fields(after)[39-3])
	if err != nil {
		t.Fatal(err)
	}
	return core
}
