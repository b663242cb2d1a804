package optim

import (
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// shareElems is how many elements of a parameter a thread updates at least: fewer take less time than waking it.
const shareElems = 1 << 15

// Share lets the threads of a device update large parameters together from the next Step on. Each element is updated as
// one thread would update it, so weights and state have the same bits with any number of threads. Rules that need a whole
// parameter, and sums over gradients, are shared by parameters. Those of the program stay on one thread: their functions need
// not be safe for concurrent use.
func (o *Optimizer) Share(dev plan.Sharer) {
	o.shareParams(dev)
	if _, foreign := o.rule.(own); foreign || o.rule.whole() {
		return
	}
	for i := range o.params {
		s := &o.params[i]
		n := s.value.Shape.Elems()
		if n < 2*shareElems {
			continue
		}
		s.shares = dev.Share(n, shareElems, func(lo, hi int) func() {
			part := s.part(tensor.Part{From: lo, To: hi})
			return func() {
				part.cfg, part.rate, part.number = s.cfg, s.rate, s.number
				o.change(&part)
			}
		})
	}
}

// shareParams divides the parameters among threads, by their elements.
func (o *Optimizer) shareParams(dev plan.Sharer) {
	total := 0
	for i := range o.params {
		total += o.params[i].Grad.Shape.Elems()
	}
	if total < 2*shareElems {
		return
	}
	o.shares = dev.Share(total, shareElems, func(lo, hi int) func() {
		var begin []*slot // parameters that begin in this share
		at := 0
		for i := range o.params {
			if lo <= at && at < hi {
				begin = append(begin, &o.params[i])
			}
			at += o.params[i].Grad.Shape.Elems()
		}
		return func() {
			for _, s := range begin {
				o.work(o, s)
			}
		}
	})
}

// spread does work on every parameter, on several threads if there are any. The work on one must not depend on
// that on others.
func (o *Optimizer) spread(work func(*Optimizer, *slot)) {
	if o.shares == nil {
		for i := range o.params {
			work(o, &o.params[i])
		}
		return
	}
	o.work = work
	o.shares()
}

// together reports whether threads may update whole parameters beside each other: those that
// widen half numbers share the room for it.
func (o *Optimizer) together() bool {
	_, foreign := o.rule.(own)
	return !foreign && o.rule.whole() && o.widest() == 0
}

// part is a slot of some of the elements, over the same memory.
func (s *slot) part(p tensor.Part) slot {
	all := func(list []tensor.Tensor) (parts []tensor.Tensor) {
		for _, t := range list {
			parts = append(parts, p.Of(t))
		}
		return parts
	}
	part := *s
	part.value, part.own, part.weight, part.grad = p.Of(s.value), p.Of(s.own), p.Of(s.weight), p.Of(s.grad)
	part.state, part.work = all(s.state), all(s.work)
	if s.ema.Data != nil {
		part.ema = p.Of(s.ema)
	}
	return part
}
