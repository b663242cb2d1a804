package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// pointwise enters a function of one element and its gradient, each for float32
// and float64: kernels of slices, that get the operation's scalars.
func pointwise(
	o graph.Op,
	f32 func(x, y []float32, s op.Scalars), f64 func(x, y []float64, s op.Scalars),
	g32 func(saved, dy, dx []float32, s op.Scalars), g64 func(saved, dy, dx []float64, s op.Scalars),
) {
	bind.Implement(o, bind.Implementation{F32: unary(f32), F64: unary(f64), Blocks: ofOne})
	bind.Implement(op.GradOp(o), bind.Implementation{F32: binary(g32), F64: binary(g64), Blocks: ofTwo})
}

// How functions of one and of two tensors are cut.
var (
	ofOne = bind.Cuts{Along: bind.Elements, Of: []int{0, ^0}}
	ofTwo = bind.Cuts{Along: bind.Elements, Of: []int{0, 1, ^0}}
)

// keepSlope enters a kernel that replaces x by the slope, for steps in float32 that allow it.
// Their gradients then multiply.
func keepSlope(o graph.Op, f func(x, y []float32, s op.Scalars)) {
	either := func(o graph.Op, slope func(*bind.Binder[float32]) bind.Job) {
		bind.Override(o, func(whole func(*bind.Binder[float32]) bind.Job) func(*bind.Binder[float32]) bind.Job {
			return func(b *bind.Binder[float32]) bind.Job {
				if b.Step.KeepSlope && b.Step.In[0].Spec.DType == tensor.F32 {
					return slope(b)
				}
				return whole(b)
			}
		})
	}
	either(o, unary(f))
	either(op.GradOp(o), binary(func(slope, dy, dx []float32, _ op.Scalars) { elementwise.Mul(slope, dy, dx) }))
}

// shareElems is how many elements of a pointwise step stay together on one thread:
// fewer take less time than starting a second one.
const shareElems = 8192

func unary[T kernel.Float](f func(x, y []T, s op.Scalars)) func(*bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		s, x := scalars(b.Step), b.In(0)
		y, _ := b.Out(0)
		return b.Split(len(y), shareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y[lo:hi], s) })
	}
}

func binary[T kernel.Float](f func(saved, dy, dx []T, s op.Scalars)) func(*bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		s, saved, dy := scalars(b.Step), b.In(0), b.In(1)
		dx, _ := b.Out(0)
		return b.Split(len(dx), shareElems, func(c *plan.Call, _, lo, hi int) { f(saved(c)[lo:hi], dy(c)[lo:hi], dx[lo:hi], s) })
	}
}

// scalars are a step's; a function without any takes none.
func scalars(s *plan.Step) op.Scalars {
	v, _ := s.Attr.(op.Scalars)
	return v
}

// plain is a kernel that takes no scalars, plainGrad one of a gradient.
func plain[T kernel.Float](f func(x, y []T)) func(x, y []T, _ op.Scalars) {
	return func(x, y []T, _ op.Scalars) { f(x, y) }
}

func plainGrad[T kernel.Float](f func(saved, dy, dx []T)) func(saved, dy, dx []T, _ op.Scalars) {
	return func(saved, dy, dx []T, _ op.Scalars) { f(saved, dy, dx) }
}

// bf16Unary is a step of one slice, and bf16Binary one of two, all bfloat16.
func bf16Unary(f func(x, y []uint16)) func(s *plan.Step) bind.Native {
	return func(s *plan.Step) bind.Native {
		if !bf16Arena(s) {
			return bind.Native{}
		}
		return bind.Native{Direct: []int{0, ^0}, Bind: func(b *bind.Binder[float32]) bind.Job {
			x, y := b.Half(0), b.HalfOut(0)
			return b.Split(len(y), shareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y[lo:hi]) })
		}}
	}
}

func bf16Binary(f func(a, b, dst []uint16)) func(s *plan.Step) bind.Native {
	return func(s *plan.Step) bind.Native {
		if !bf16Arena(s) || !bind.IsBF16(s.In[1]) {
			return bind.Native{}
		}
		return bind.Native{Direct: []int{0, 1, ^0}, Bind: func(b *bind.Binder[float32]) bind.Job {
			x, y, dst := b.Half(0), b.Half(1), b.HalfOut(0)
			return b.Split(len(dst), shareElems, func(c *plan.Call, _, lo, hi int) { f(x(c)[lo:hi], y(c)[lo:hi], dst[lo:hi]) })
		}}
	}
}

func bf16Arena(s *plan.Step) bool { return bind.IsBF16(s.Out[0]) && s.Out[0].Place == plan.PlaceArena }
