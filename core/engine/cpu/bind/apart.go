package bind

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/cores"
)

const (
	// long is how long the last run must have taken for the next one to keep its threads
	// apart. A move takes some 50 µs, and the system separates two threads on one core
	// after one to four milliseconds.
	long = 500 * time.Microsecond
	// rest is how long all workers stay after one has been moved: with more threads than
	// cores, moving again and again gains nothing.
	rest = 40 * time.Millisecond
	// tell is how often a waiting worker looks for work until it writes down its place again.
	tell = 16
)

// place is where a worker waits: its thread in the upper 32 bits, its core plus one in the
// lower ones. 0 is nowhere.
type place struct{ atomic.Uint64 }

// here writes down the place of the calling goroutine.
func (p *place) here() { p.Store(uint64(cores.Thread())<<32 | uint64(uint32(cores.Current()+1))) }

// read returns the core -1 if the place is not known.
func (p *place) read() (thread, core int) {
	at := p.Load()
	return int(at >> 32), int(uint32(at)) - 1
}

// apart keeps the threads of a pool on cores of their own. A worker that waits on the
// caller's core would start when the caller has done its part, or when the system notices.
type apart struct {
	moved time.Time // when a worker was last moved
	taken []int     // cores of the caller and of workers, kept so that nothing is allocated
}

// keep moves workers that wait on the caller's core, or on that of another one.
func (a *apart) keep(workers []*worker, now time.Time) {
	here := cores.Current()
	if here < 0 || now.Sub(a.moved) < rest {
		return
	}
	a.taken = append(a.taken[:0], here)
	for _, w := range workers {
		thread, core := w.place.read()
		switch {
		case core < 0:
		case slices.Contains(a.taken, core):
			cores.Leave(thread, core, a.taken)
			a.moved = now
		default:
			a.taken = append(a.taken, core)
		}
	}
}
