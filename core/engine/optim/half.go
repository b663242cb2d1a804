package optim

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// narrow reports whether a half value is updated without a master copy (apex
// O3): nothing but half numbers survives a step.
func (s *slot) narrow() bool { return s.Value.DType.Half() && s.Master.DType == tensor.Invalid }

// shareScratch gives slots the room in which half numbers are widened. All
// slots share it, one after the other.
func (o *Optimizer) shareScratch() {
	var rooms [][]byte // gradient, value, state
	room := func(k, elems int) []byte {
		for len(rooms) <= k {
			rooms = append(rooms, tensor.Aligned(4*o.widest()))
		}
		return rooms[k][:4*elems]
	}
	for i := range o.params {
		s := &o.params[i]
		shape, n := s.value.Shape, s.value.Shape.Elems()
		if s.Grad.DType.Half() {
			s.grad = tensor.Of(tensor.F32, shape, room(0, n))
		}
		if !s.narrow() {
			continue
		}
		s.weight = tensor.Of(tensor.F32, shape, room(1, n))
		s.work = make([]tensor.Tensor, len(s.state))
		for k := range s.work {
			s.work[k] = tensor.Of(tensor.F32, shape, room(2+k, n))
		}
	}
}

// widest is the size of the largest half tensor, in elements.
func (o *Optimizer) widest() (n int) {
	for i := range o.params {
		if s := &o.params[i]; s.Grad.DType.Half() || s.Value.DType.Half() {
			n = max(n, s.value.Shape.Elems())
		}
	}
	return n
}

// load widens what is half. The gradient is scaled on the way: unscaling it in
// place would push small gradients below the smallest half.
func (s *slot) load(scale float64) {
	if s.Grad.DType.Half() {
		copyAs(s.grad, s.own)
		elementwise.Scale(s.grad.F32(), float32(scale))
	}
	if !s.narrow() {
		return
	}
	copyAs(s.weight, s.value)
	for k := range s.state {
		copyAs(s.work[k], s.state[k])
	}
}

// store rounds the updated float32 numbers into the half ones.
func (s *slot) store() {
	if s.Value.DType.Half() {
		copyAs(s.value, s.weight)
	}
	if !s.narrow() {
		return
	}
	for k := range s.state {
		copyAs(s.state[k], s.work[k])
	}
}

func copyAs(dst, src tensor.Tensor) { convert.Convert(dst.DType, dst.Data, src.DType, src.Data) }
