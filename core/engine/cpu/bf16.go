package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Where kernels read and write bfloat16 themselves, a step needs no float32
// copies of its large operands. Small ones, biases and statistics, are still
// widened, and gradients of parameters still rounded, around the kernel.

// native is how a step runs on bfloat16: its binding, and the scratch elements
// of its kernel. A zero native means that it goes through float32.
type native struct {
	bind    func(*binder[float32]) job
	scratch int
	term    int   // more of them where threads add up terms of a sum
	direct  []int // operands that the kernel takes as they are: inputs, and outputs as ^index
}

// nativeOf says how a step runs if all of its large operands are of a half type.
func nativeOf(s *plan.Step) (n native) {
	if len(s.In) == 0 || !s.In[0].Present() || !s.In[0].Spec.DType.Half() {
		return native{}
	}
	known := implementations[s.Op]
	if known.bf16 != nil && kernel.HasBF16() && isBF16(s.In[0]) {
		n = known.bf16(s)
	}
	if known.half != nil && n.bind == nil {
		n = known.half(s)
	}
	return n
}

func isBF16(o plan.Operand) bool { return o.Present() && o.Spec.DType == tensor.BF16 }

// takes reports whether the kernel reads or writes an operand as it is.
func (n *native) takes(operand int) bool {
	for _, d := range n.direct {
		if d == operand {
			return true
		}
	}
	return false
}

// room is the scratch elements of each thread.
func (n *native) room(threads int) int {
	if threads == 1 {
		return n.scratch
	}
	return n.scratch + n.term
}

// workspace is Device.Workspace of such a step.
func (n *native) workspace(s *plan.Step, threads int) int {
	bytes := threads * tensor.RoundUp(4*n.room(threads), cacheLine)
	for i := range s.In {
		if !n.takes(i) {
			bytes += copyBytes(s, &s.In[i])
		}
	}
	for i := range s.Out {
		if !n.takes(^i) {
			bytes += copyBytes(s, &s.Out[i])
		}
	}
	return bytes
}

// half is input i as it is.
func (b *binder[T]) half(i int) func(c *plan.Call) []uint16 { return halves[uint16](b, i) }

// halves is half for elements of any name.
func halves[H ~uint16, T kernel.Float](b *binder[T], i int) func(c *plan.Call) []H {
	at := b.m.place(&b.s.In[i])
	if at.data != nil {
		return always(tensor.View[H](at.data))
	}
	return func(c *plan.Call) []H { return tensor.View[H](at.bytes(c)) }
}

// optionalHalf is half of an input that may be absent, and then nil.
func (b *binder[T]) optionalHalf(i int) func(c *plan.Call) []uint16 {
	if i < 0 || i >= len(b.s.In) || !b.s.In[i].Present() {
		return func(*plan.Call) []uint16 { return nil }
	}
	return b.half(i)
}

// halfOut is output i, in the arena, as it is.
func (b *binder[T]) halfOut(i int) []uint16 { return tensor.View[uint16](b.m.fixed(&b.s.Out[i])) }
