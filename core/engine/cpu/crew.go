package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// idle is how long a helper looks for the next step's work before it ends.
// Waking a core that sleeps takes as long as half a step of a small model; most
// steps follow each other within a few microseconds.
const idle = 200 * time.Microsecond

// nap is how long the caller sleeps before it looks for the last part again, on
// a machine with more to do than cores.
const nap = 20 * time.Microsecond

// crew runs the parts of a step on several threads. What is a part is fixed by
// the number of threads, and sums over parts run in their order, so results are
// the same from run to run, whoever does them: helpers take what is left, and so
// does the caller, who never waits for a helper that has not begun. Helpers stay
// between steps and end when there is nothing to do for a while, so a crew need
// not be closed. A nil crew is one thread.
type crew struct {
	threads int
	helpers []*helper
	work    func(part int)
	offer   atomic.Uint64 // turn, parts and the next part to take, in 32, 16 and 16 bits
	left    atomic.Int32  // parts that are not done
	turn    uint64
	wait    shm.Spinner // of the caller, for the last part
	done    func() bool
}

// helper is a goroutine that comes and goes.
type helper struct {
	crew *crew
	here atomic.Bool
	spin shm.Spinner
	run  func() // prepared, so that starting one allocates nothing
	open func() bool
}

func newCrew(threads int) *crew {
	if threads < 2 {
		return nil
	}
	c := &crew{threads: threads, wait: shm.Spinner{For: idle}}
	c.done = c.finished
	for range threads - 1 {
		h := &helper{crew: c, spin: shm.Spinner{For: idle}}
		h.run, h.open = h.help, c.look
		c.helpers = append(c.helpers, h)
	}
	return c
}

func (c *crew) size() int {
	if c == nil {
		return 1
	}
	return c.threads
}

// run calls work for every part, and returns when all are done. parts is at most
// the number of threads.
func (c *crew) run(parts int, work func(part int)) {
	c.work = work
	c.left.Store(int32(parts))
	c.turn++
	c.offer.Store(c.turn<<32 | uint64(parts)<<16)
	for _, h := range c.helpers[:parts-1] {
		if h.here.CompareAndSwap(false, true) {
			go h.run()
		}
	}
	c.take()
	for !c.wait.Until(c.done) { // a helper is at its last part, and others want the cores
		time.Sleep(nap)
	}
}

// take does parts until none is left to begin.
func (c *crew) take() {
	for {
		o := c.offer.Load()
		next, parts := o&0xffff, o>>16&0xffff
		if next >= parts {
			return
		}
		if c.offer.CompareAndSwap(o, o+1) {
			c.work(int(next))
			c.left.Add(-1)
		}
	}
}

// open reports whether there is a part to begin.
func (c *crew) open() bool {
	o := c.offer.Load()
	return o&0xffff < o>>16&0xffff
}

// finished reports whether all parts are done, and lets other goroutines run.
func (c *crew) finished() bool {
	if c.left.Load() == 0 {
		return true
	}
	runtime.Gosched()
	return c.left.Load() == 0
}

// look is open for one who waits, and lets other goroutines run.
func (c *crew) look() bool {
	if c.open() {
		return true
	}
	runtime.Gosched()
	return c.open()
}

// help takes parts as long as they come. Who leaves looks once more: work that
// was offered to somebody thought to be here is not left to the caller alone.
func (h *helper) help() {
	for {
		for h.spin.Until(h.open) {
			h.crew.take()
		}
		h.here.Store(false)
		if !h.crew.open() || !h.here.CompareAndSwap(false, true) {
			return
		}
		h.crew.take()
	}
}

// share is one of the parts of n things, in units that stay together.
func share(n, unit, parts, part int) (lo, hi int) {
	units := (n + unit - 1) / unit
	return min(n, units*part/parts*unit), min(n, units*(part+1)/parts*unit)
}

// parts is how many threads work on n units.
func (b *binder[T]) parts(n int) int { return min(n, b.m.crew.size()) }

// split runs a kernel over n things, in units that stay together: all at once
// with one thread, else a share per thread.
func (b *binder[T]) split(n, unit int, run func(c *plan.Call, part, lo, hi int)) job {
	parts := b.parts((n + unit - 1) / unit)
	if parts == 1 {
		return func(c *plan.Call) { run(c, 0, 0, n) }
	}
	var call *plan.Call
	crew := b.m.crew
	work := func(part int) {
		lo, hi := share(n, unit, parts, part)
		run(call, part, lo, hi)
	}
	return func(c *plan.Call) {
		call = c
		crew.run(parts, work)
	}
}

// scratches is the room that the step's kernel asks for, once per thread.
func (b *binder[T]) scratches() [][]T {
	s := make([][]T, b.m.crew.size())
	for i := range s {
		s[i] = b.scratch()
	}
	return s
}

// convParts are the geometries of each thread's share of the images.
func (b *binder[T]) convParts(p conv.Shape) []conv.Shape {
	parts := make([]conv.Shape, b.parts(p.N))
	for i := range parts {
		lo, hi := share(p.N, 1, len(parts), i)
		parts[i] = p
		parts[i].N = hi - lo
	}
	return parts
}
