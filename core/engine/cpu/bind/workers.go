package bind

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/cores"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// idle is how long a worker looks for the next step's work before it ends, and the caller
// for the end of the last part. Waking a sleeping core takes as long as half a step of a
// small model. Most steps follow each other within a few microseconds, but the parts of a
// convolution may end hundreds of microseconds apart. Where another process computes on a
// worker's core, the worker ends sooner, and begins again with the next step: to start one
// takes 70 to 100 µs, as long as many steps, so it is left out of none.
const idle = 2 * time.Millisecond

// nap is how long the caller sleeps before it checks again whether the last part
// is done, on a machine with more runnable goroutines than cores.
const nap = 20 * time.Microsecond

// WorkerPool runs the parts of a step on several threads. The number of threads
// determines the parts, and sums over parts are added in order, so results are
// the same from run to run, whichever thread computes a part. Workers and the
// caller take parts until none is left, so the caller never waits for a worker
// that has not started. A part goes to the core that computed it last, if that core
// takes one, because its cache holds what the part has read and written. Workers stay
// between steps and end after a short idle time, so a pool need not be closed. A nil
// pool is one thread.
type WorkerPool struct {
	threads int
	workers []*worker
	work    func(part int)
	next    atomic.Uint64   // run, parts and the number of parts taken, in 32, 16 and 16 bits
	takers  []atomic.Uint64 // for each part, the run and the core that took it last, see taker
	left    atomic.Int32    // parts that are not done
	runs    uint64
	wait    shm.Spinner // of the caller, for the last part
	done    func() bool
	took    time.Duration // the last run
	apart   apart
}

// worker is a goroutine that starts when there is work and ends when idle.
type worker struct {
	pool    *WorkerPool
	running atomic.Bool
	spin    shm.Spinner
	run     func() // prepared, so that starting one allocates nothing
	open    func() bool
	looks   int
	place   place
}

// NewWorkerPool returns a pool of so many threads, nil for one.
func NewWorkerPool(threads int) *WorkerPool {
	if threads < 2 {
		return nil
	}
	p := &WorkerPool{
		threads: threads,
		takers:  make([]atomic.Uint64, threads),
		wait:    shm.Spinner{For: idle, Return: true},
	}
	p.done = p.finished
	for range threads - 1 {
		w := &worker{pool: p, spin: shm.Spinner{For: idle, Return: true}}
		w.run, w.open = w.loop, w.look
		p.workers = append(p.workers, w)
	}
	return p
}

// Size is the number of threads.
func (p *WorkerPool) Size() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// run calls work for every part, and returns when all are done. parts is at most
// the number of threads.
func (p *WorkerPool) run(parts int, work func(part int)) {
	began := time.Now()
	if p.took > long {
		p.apart.keep(p.workers[:parts-1], began)
	}
	p.work = work
	p.left.Store(int32(parts))
	p.runs++
	p.next.Store(p.runs<<32 | uint64(parts)<<16)
	for _, w := range p.workers[:parts-1] {
		if w.running.CompareAndSwap(false, true) {
			go w.run()
		}
	}
	p.take()
	for !p.wait.Until(p.done) { // a worker computes its last part, and other goroutines need the cores
		time.Sleep(nap)
	}
	p.took = time.Since(began)
}

// take runs parts until none is left to start.
func (p *WorkerPool) take() {
	for {
		o := p.next.Load()
		taken, parts := o&0xffff, o>>16&0xffff
		if taken >= parts {
			return
		}
		if p.next.CompareAndSwap(o, o+1) {
			p.work(choose(p.takers[:parts], o>>32, cores.Current()))
			p.left.Add(-1)
		}
	}
}

// choose returns a part of a run for a goroutine on a core, which has counted itself among
// those that take one, so one is left for it: the part that the core computed last, or any.
func choose(takers []atomic.Uint64, run uint64, core int) (part int) {
	me := taker(run, core)
	for part := range takers {
		last := takers[part].Load()
		if uint32(last) == uint32(me) && last != me && takers[part].CompareAndSwap(last, me) {
			return part
		}
	}
	for part := range takers {
		last := takers[part].Load()
		for last>>32 != run {
			if takers[part].CompareAndSwap(last, me) {
				return part
			}
			last = takers[part].Load()
		}
	}
	panic("cpu: more goroutines take parts of a run than it has")
}

// taker is a run and a core in 32 bits each. The core is 0 where the system does not tell it.
func taker(run uint64, core int) uint64 { return run<<32 | uint64(uint32(core+1)) }

// open reports whether there is a part to start.
func (p *WorkerPool) open() bool {
	o := p.next.Load()
	return o&0xffff < o>>16&0xffff
}

// finished reports whether all parts are done, and lets other goroutines run.
func (p *WorkerPool) finished() bool {
	if p.left.Load() == 0 {
		return true
	}
	runtime.Gosched()
	return p.left.Load() == 0
}

// look is the pool's open for a waiting worker: it lets other goroutines run, and writes
// down where it waits.
func (w *worker) look() bool {
	if w.pool.open() {
		return true
	}
	runtime.Gosched()
	if w.looks++; w.looks%tell == 0 {
		w.place.here()
	}
	return w.pool.open()
}

// loop takes parts while there are any. A worker that ends checks once more for
// parts that were added while it still counted as running.
func (w *worker) loop() {
	for {
		for w.spin.Until(w.open) {
			w.pool.take()
		}
		w.place.Store(0)
		w.running.Store(false)
		if !w.pool.open() || !w.running.CompareAndSwap(false, true) {
			return
		}
		w.pool.take()
	}
}

// Share prepares work on n things, in units that stay together, with a part for each thread, and returns what
// runs all parts.
func (p *WorkerPool) Share(n, unit int, part func(lo, hi int) func()) func() {
	parts := min((n+unit-1)/unit, p.Size())
	if parts < 2 {
		return part(0, n)
	}
	jobs := make([]func(), parts)
	for i := range jobs {
		jobs[i] = part(share(n, unit, parts, i))
	}
	work := func(i int) { jobs[i]() }
	return func() { p.run(parts, work) }
}

// share is one of the parts of n things, in units that stay together.
func share(n, unit, parts, part int) (lo, hi int) {
	units := (n + unit - 1) / unit
	return min(n, units*part/parts*unit), min(n, units*(part+1)/parts*unit)
}

// parts is how many threads work on n units.
func (b *Binder[T]) parts(n int) int { return min(n, b.Memory.Workers.Size()) }

// Split runs a kernel over n things, in units that stay together: all at once
// with one thread, else a share per thread.
func (b *Binder[T]) Split(n, unit int, run func(c *plan.Call, part, lo, hi int)) Job {
	parts := b.parts((n + unit - 1) / unit)
	if parts == 1 {
		return func(c *plan.Call) { run(c, 0, 0, n) }
	}
	var call *plan.Call
	workers := b.Memory.Workers
	work := func(part int) {
		lo, hi := share(n, unit, parts, part)
		run(call, part, lo, hi)
	}
	return func(c *plan.Call) {
		call = c
		workers.run(parts, work)
	}
}

// Scratches is the scratch memory of the step's kernel, once per thread. Where the workspace
// has no copies of operands, that of several threads is where [Memory.ofThread] says.
func (b *Binder[T]) Scratches() [][]T {
	s := make([][]T, b.Memory.Workers.Size())
	each := tensor.RoundUp(b.room*sizeof[T](), cacheLine)
	copies := Workspace(b.Step, len(s)) - len(s)*each
	for i := range s {
		if s[i] = b.Scratch(); len(s) > 1 && copies == 0 && b.room > 0 {
			s[i] = tensor.View[T](b.Memory.ofThread(i, each)[:b.room*sizeof[T]()])
		}
	}
	return s
}

// WholeScratch is the scratch memory of all threads in one piece.
func (b *Binder[T]) WholeScratch() []T {
	return tensor.View[T](b.space(b.Memory.Workers.Size() * tensor.RoundUp(b.room*sizeof[T](), cacheLine)))
}

// ConvParts are the geometries of each thread's share of the images.
func (b *Binder[T]) ConvParts(p conv.Shape) []conv.Shape {
	p = p.Share(p.N)
	return Shares(b, p, func(p *conv.Shape) *int { return &p.N })
}

// Shares are copies of a geometry with each thread's share of the images; images points
// to their number.
func Shares[T kernel.Float, P any](b *Binder[T], p P, images func(*P) *int) []P {
	n := *images(&p)
	parts := make([]P, b.parts(n))
	for i := range parts {
		lo, hi := share(n, 1, len(parts), i)
		parts[i] = p
		*images(&parts[i]) = hi - lo
	}
	return parts
}
