package cuda

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// tries is how many of cuDNN's plans for a convolution are timed.
const tries = 5

// Repeatable says whether equal runs must give equal bits in programs that are
// bound from now on, as they must by default. Where not, convolutions may be made by engines
// that add up in an order of the moment, and by the fastest of those that cuDNN thinks
// best, measured on this device: what PyTorch calls cudnn.benchmark.
func (d *Device) Repeatable(on bool) {
	n := d.lib.dnn
	if n == nil {
		return
	}
	n.vary, n.fastest = !on, nil
	if !on {
		n.fastest = d.fastest
	}
	clear(n.plans)
}

// fastest runs each of a convolution's plans and returns the one that takes the
// least time, or the first where none can be timed: there may be no room for it.
func (d *Device) fastest(c convolution, plans []*convPlan) *convPlan {
	t, err := d.newTrial(c, plans)
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
	d          *Device
	o          *descriptorList
	x, w, y    driver.DevicePtr
	work       driver.DevicePtr
	begin, end driver.Event
}

func (d *Device) newTrial(c convolution, plans []*convPlan) (t *trial, err error) {
	t = &trial{d: d, o: &descriptorList{api: d.lib.dnn.api}}
	work := 0
	for _, p := range plans {
		work = max(work, p.workspace)
	}
	g, size := c.g, c.d.Size()
	for _, m := range []struct {
		at *driver.DevicePtr
		n  int
	}{
		{&t.x, size * int(g.n) * int(g.c) * int(g.h) * int(g.w)}, {&t.w, size * int(g.k) * int(g.c/g.groups) * int(g.r) * int(g.s)},
		{&t.y, size * int(g.n) * int(g.k) * int(g.oh) * int(g.ow)}, {&t.work, work},
	} {
		if *m.at, err = d.alloc(m.n, "trying cuDNN's engines"); err != nil {
			return t, err
		}
		if err = d.cu.MemsetD8Async(*m.at, 0, uintptr(max(m.n, 1)), d.stream); err != nil { // numbers, not what was there
			return t, err
		}
	}
	return t, joinFree(d.cu.EventCreate(&t.begin, 0), d.cu.EventCreate(&t.end, 0))
}

// time is a plan's in milliseconds, of a few runs after the first, which loads its kernels.
func (t *trial) time(p *convPlan) (ms float32, err error) {
	const runs = 3
	n, cu := t.d.lib.dnn, t.d.cu
	pack, err := n.pack(t.o, t.x, t.w, t.y, t.work)
	for i := 0; i <= runs && err == nil; i++ {
		if i == 1 {
			err = cu.EventRecord(t.begin, t.d.stream)
		}
		if err == nil {
			err = n.api.BackendExecute(n.handle, p.desc, pack)
		}
	}
	if err = joinFree(err, cu.EventRecord(t.end, t.d.stream)); err == nil {
		err = joinFree(t.d.await(t.d.stream, t.end, to("a convolution that is timed")), cu.EventElapsedTime(&ms, t.begin, t.end))
	}
	return ms, err
}

func (t *trial) free() (err error) {
	cu := t.d.cu
	for _, e := range []driver.Event{t.begin, t.end} {
		if e != 0 {
			err = joinFree(err, cu.EventDestroy(e))
		}
	}
	for _, p := range []driver.DevicePtr{t.x, t.w, t.y, t.work} {
		if p != 0 {
			err = joinFree(err, cu.MemFree(p))
		}
	}
	return joinFree(err, t.o.free())
}
