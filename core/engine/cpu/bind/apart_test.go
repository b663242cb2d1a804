package bind

import (
	"runtime"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/cores"
)

// A worker on the caller's core is moved, and then none for a while. A worker whose place is
// not known stays.
func TestWorkersOnTheCallersCoreMove(t *testing.T) {
	if cores.Current() < 0 {
		t.Skip("the system does not tell the core")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	w := &worker{}
	workers, a, now := []*worker{w}, apart{}, time.Now()
	if a.keep(workers, now); !a.moved.IsZero() {
		t.Error("a worker moved from an unknown place")
	}
	for range 100 { // the system may move this thread between the two calls
		w.place.here()
		if a.keep(workers, now); !a.moved.IsZero() {
			break
		}
	}
	if !a.moved.Equal(now) {
		t.Fatal("no worker moved from the caller's core")
	}
	w.place.here()
	if a.keep(workers, now.Add(rest/2)); !a.moved.Equal(now) {
		t.Error("a worker moved again at once")
	}
}

func TestPlaceRemembersThreadAndCore(t *testing.T) {
	var p place
	if _, core := p.read(); core >= 0 {
		t.Errorf("nowhere is core %d", core)
	}
	for _, c := range [][2]int{{1, 0}, {4_194_304, 1023}} {
		p.Store(uint64(c[0])<<32 | uint64(c[1]+1))
		if thread, core := p.read(); thread != c[0] || core != c[1] {
			t.Errorf("thread %d, core %d, want %v", thread, core, c)
		}
	}
}
