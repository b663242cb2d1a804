package bind

// Binding of kernels that work element by element: activations and additions.

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// How kernels of one and of two tensors are cut into blocks.
var (
	OfOne = Cuts{Along: Elements, Of: []int{0, ^0}}
	OfTwo = Cuts{Along: Elements, Of: []int{0, 1, ^0}}
)

// ShareElems is how many elements of a step stay together on one thread:
// fewer take less time than starting a second one.
const ShareElems = 8192

// Unary binds a kernel that reads input 0 and writes output 0, of one length. Threads call it
// with ranges of both, and with the step's scalars.
func Unary[T kernel.Float](f func(x, y []T, s op.Scalars)) func(*Binder[T]) Job {
	return func(b *Binder[T]) Job {
		s, x := Scalars(b.Step), b.In(0)
		y, _ := b.Out(0)
		return b.Split(len(y), ShareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y[lo:hi], s) })
	}
}

// Binary binds a kernel that reads inputs 0 and 1 and writes output 0, as Unary does. A
// gradient reads what its function saved, and dy.
func Binary[T kernel.Float](f func(saved, dy, dx []T, s op.Scalars)) func(*Binder[T]) Job {
	return func(b *Binder[T]) Job {
		s, saved, dy := Scalars(b.Step), b.In(0), b.In(1)
		dx, _ := b.Out(0)
		return b.Split(len(dx), ShareElems, func(c *plan.Call, _, lo, hi int) { f(saved(c)[lo:hi], dy(c)[lo:hi], dx[lo:hi], s) })
	}
}

// Scalars are the arguments of a step's function, zeros if it has none.
func Scalars(s *plan.Step) op.Scalars {
	v, _ := s.Attr.(op.Scalars)
	return v
}

// Plain adapts a kernel that takes no scalars to Unary.
func Plain[T kernel.Float](f func(x, y []T)) func(x, y []T, _ op.Scalars) {
	return func(x, y []T, _ op.Scalars) { f(x, y) }
}

// PlainGrad is Plain for Binary.
func PlainGrad[T kernel.Float](f func(saved, dy, dx []T)) func(saved, dy, dx []T, _ op.Scalars) {
	return func(saved, dy, dx []T, _ op.Scalars) { f(saved, dy, dx) }
}

// BF16Unary binds a kernel that reads and writes bfloat16, for steps whose input and output are.
func BF16Unary(f func(x, y []uint16)) func(s *plan.Step) Native {
	return func(s *plan.Step) Native {
		if !bf16Arena(s) {
			return Native{}
		}
		return Native{Direct: []int{0, ^0}, Bind: func(b *Binder[float32]) Job {
			x, y := b.Half(0), b.HalfOut(0)
			return b.Split(len(y), ShareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y[lo:hi]) })
		}}
	}
}

// BF16Binary is BF16Unary for kernels that read two inputs.
func BF16Binary(f func(a, b, dst []uint16)) func(s *plan.Step) Native {
	return func(s *plan.Step) Native {
		if !bf16Arena(s) || !IsBF16(s.In[1]) {
			return Native{}
		}
		return Native{Direct: []int{0, 1, ^0}, Bind: halfBinary(f)}
	}
}

// HalfBinary is BF16Binary for kernels of both half types, which it leaves to vectors.
func HalfBinary(f func(d tensor.DType, a, b, dst []uint16)) func(s *plan.Step) Native {
	return func(s *plan.Step) Native {
		d := s.Out[0].Spec.DType
		if kernel.Current() == kernel.Generic || !d.Half() || s.Out[0].Place != plan.PlaceArena || s.In[0].Spec.DType != d || s.In[1].Spec.DType != d {
			return Native{}
		}
		bound := func(a, b, dst []uint16) { f(d, a, b, dst) }
		return Native{Direct: []int{0, 1, ^0}, Bind: halfBinary(bound)}
	}
}

// halfBinary binds a kernel of two inputs and an output of a half type.
func halfBinary(f func(a, b, dst []uint16)) func(b *Binder[float32]) Job {
	return func(b *Binder[float32]) Job {
		x, y, dst := b.Half(0), b.Half(1), b.HalfOut(0)
		return b.Split(len(dst), ShareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y(c)[lo:hi], dst[lo:hi]) })
	}
}

func bf16Arena(s *plan.Step) bool { return IsBF16(s.Out[0]) && s.Out[0].Place == plan.PlaceArena }
