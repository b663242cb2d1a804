package optim

import (
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// shareElems is how many elements of a parameter a thread updates at least: fewer take less time than waking it.
const shareElems = 1 << 15

// Share lets the threads of a device update large parameters together from the next Step on. Each element is updated as
// one thread would update it, so weights and state have the same bits with any number of threads. Rules that need a whole
// parameter stay on one thread, as do those of the program, whose functions need not be safe for concurrent use.
func (o *Optimizer) Share(dev plan.Sharer) {
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
