package library

import (
	"cmp"
	"math"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
)

// tries is how many of cuDNN's plans for a convolution are timed.
const tries = 5

// Repeatable sets whether equal runs must give equal bits in programs that are bound
// from now on, as they must by default. Where not, convolutions may be made by engines
// that add up in an order of the moment, and by the fastest of those that cuDNN thinks
// best, measured on this device: what PyTorch calls cudnn.benchmark.
func (l *Libraries) Repeatable(on bool) {
	n := l.DNN
	if n == nil {
		return
	}
	n.vary, n.fastest = !on, nil
	if !on {
		n.fastest = l.fastest
	}
	clear(n.plans)
}

// fastest runs each of a convolution's plans and returns the one that takes the
// least time, or the first where none can be timed: there may be no room for it.
func (l *Libraries) fastest(c Convolution, plans []*ConvPlan) *ConvPlan {
	t, err := l.newTrial(c, plans)
	best, least := plans[0], float32(math.Inf(1))
	for i := 0; i < len(plans) && err == nil; i++ {
		if ms, failed := t.time(plans[i]); failed == nil && ms < least {
			best, least = plans[i], ms
		}
	}
	_ = t.free()
	return best
}

// trial is memory to run a convolution's plans on, and two events around them.
type trial struct {
	g          *gpu.GPU
	n          *DNN
	o          *descriptorList
	x, w, y    driver.DevicePtr
	work       driver.DevicePtr
	begin, end driver.Event
}

func (l *Libraries) newTrial(c Convolution, plans []*ConvPlan) (t *trial, err error) {
	t = &trial{g: l.g, n: l.DNN, o: &descriptorList{api: l.DNN.api}}
	work := 0
	for _, p := range plans {
		work = max(work, p.Workspace)
	}
	g, x, size := l.g, c.G, c.D.Size()
	for _, m := range []struct {
		at *driver.DevicePtr
		n  int
	}{
		{&t.x, size * int(x.N) * int(x.C) * int(x.H) * int(x.W)}, {&t.w, size * int(x.K) * int(x.C/x.Groups) * int(x.R) * int(x.S)},
		{&t.y, size * int(x.N) * int(x.K) * int(x.OH) * int(x.OW)}, {&t.work, work},
	} {
		if *m.at, err = g.Alloc(m.n, "trying cuDNN's engines"); err != nil {
			return t, err
		}
		if err = g.CU.MemsetD8Async(*m.at, 0, uintptr(max(m.n, 1)), g.Stream); err != nil { // numbers, not what was there
			return t, err
		}
	}
	return t, cmp.Or(g.CU.EventCreate(&t.begin, 0), g.CU.EventCreate(&t.end, 0))
}

// time is a plan's in milliseconds, of a few runs after the first, which loads its kernels.
func (t *trial) time(p *ConvPlan) (ms float32, err error) {
	const runs = 3
	n, cu := t.n, t.g.CU
	pack, err := n.pack(t.o, t.x, t.w, t.y, t.work)
	for i := 0; i <= runs && err == nil; i++ {
		if i == 1 {
			err = cu.EventRecord(t.begin, t.g.Stream)
		}
		if err == nil {
			err = n.api.BackendExecute(n.handle, p.desc, pack)
		}
	}
	if err = cmp.Or(err, cu.EventRecord(t.end, t.g.Stream)); err == nil {
		err = cmp.Or(t.g.Await(t.g.Stream, t.end, gpu.Doing("a convolution that is timed")), cu.EventElapsedTime(&ms, t.begin, t.end))
	}
	return ms, err
}

func (t *trial) free() (err error) {
	cu := t.g.CU
	for _, e := range []driver.Event{t.begin, t.end} {
		if e != 0 {
			err = cmp.Or(err, cu.EventDestroy(e))
		}
	}
	for _, p := range []driver.DevicePtr{t.x, t.w, t.y, t.work} {
		if p != 0 {
			err = cmp.Or(err, cu.MemFree(p))
		}
	}
	return cmp.Or(err, t.o.free())
}
