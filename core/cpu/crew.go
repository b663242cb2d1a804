package cpu

import (
	"sync"

	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
)

// crew runs the parts of a step on several threads. Who does what is fixed by
// the number of threads, and sums over parts run in their order, so results are
// the same from run to run. Helpers live as long as a step does: a goroutine
// that is ready to go costs less than one that has to be waited for at the end
// of a program. A nil crew is one thread.
type crew struct {
	threads int
	helpers []func() // prepared, so that starting one allocates nothing
	wait    sync.WaitGroup
	work    func(part int)
}

func newCrew(threads int) *crew {
	if threads < 2 {
		return nil
	}
	c := &crew{threads: threads}
	for part := 1; part < threads; part++ {
		c.helpers = append(c.helpers, func() {
			defer c.wait.Done()
			c.work(part)
		})
	}
	return c
}

func (c *crew) size() int {
	if c == nil {
		return 1
	}
	return c.threads
}

// run calls work for every part, the first on this goroutine, and returns when
// all are done. parts is at most the number of threads.
func (c *crew) run(parts int, work func(part int)) {
	c.work = work
	c.wait.Add(parts - 1)
	for _, help := range c.helpers[:parts-1] {
		go help()
	}
	work(0)
	c.wait.Wait()
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
func (b *binder[T]) convParts(p kernel.Conv) []kernel.Conv {
	parts := make([]kernel.Conv, b.parts(p.N))
	for i := range parts {
		lo, hi := share(p.N, 1, len(parts), i)
		parts[i] = p
		parts[i].N = hi - lo
	}
	return parts
}
