package bind

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Where kernels read and write bfloat16 themselves, a step needs no float32
// copies of its large operands. Small ones, biases and statistics, are still
// widened, and gradients of parameters still rounded, around the kernel.

// Native is how a step runs on bfloat16: its binding, and the scratch elements
// of its kernel. A zero native means that it goes through float32.
type Native struct {
	Bind    func(*Binder[float32]) Job
	Scratch int
	Term    int   // more of them where threads add up terms of a sum
	Direct  []int // operands that the kernel takes as they are: inputs, and outputs as ^index
}

// nativeOf says how a step runs if all of its large operands are of a half type.
func nativeOf(s *plan.Step) (n Native) {
	if len(s.In) == 0 || !s.In[0].Present() || !s.In[0].Spec.DType.Half() {
		return Native{}
	}
	known := implementation(s.Op)
	if known.BF16 != nil && kernel.HasBF16() && IsBF16(s.In[0]) {
		n = known.BF16(s)
	}
	if known.Half != nil && n.Bind == nil {
		n = known.Half(s)
	}
	return n
}

// IsBF16 reports whether an operand is there, and bfloat16.
func IsBF16(o plan.Operand) bool { return o.Present() && o.Spec.DType == tensor.BF16 }

// takes reports whether the kernel reads or writes an operand as it is.
func (n *Native) takes(operand int) bool {
	for _, d := range n.Direct {
		if d == operand {
			return true
		}
	}
	return false
}

// room is the scratch elements of each thread.
func (n *Native) room(threads int) int {
	if threads == 1 {
		return n.Scratch
	}
	return n.Scratch + n.Term
}

// workspace is Device.Workspace of such a step.
func (n *Native) workspace(s *plan.Step, threads int) int {
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

// Half is input i as it is.
func (b *Binder[T]) Half(i int) func(c *plan.Call) []uint16 { return Halves[uint16](b, i) }

// Halves is half for elements of any name.
func Halves[H ~uint16, T kernel.Float](b *Binder[T], i int) func(c *plan.Call) []H {
	at := b.Memory.Place(&b.Step.In[i])
	if at.Data != nil {
		return Always(tensor.View[H](at.Data))
	}
	return func(c *plan.Call) []H { return tensor.View[H](at.Bytes(c)) }
}

// OptionalHalf is half of an input that may be absent, and then nil.
func (b *Binder[T]) OptionalHalf(i int) func(c *plan.Call) []uint16 {
	if i < 0 || i >= len(b.Step.In) || !b.Step.In[i].Present() {
		return func(*plan.Call) []uint16 { return nil }
	}
	return b.Half(i)
}

// HalfOut is output i, in the arena, as it is.
func (b *Binder[T]) HalfOut(i int) []uint16 {
	return tensor.View[uint16](b.Memory.Fixed(&b.Step.Out[i]))
}
