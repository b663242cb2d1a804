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
	if op.Of(o).Pointwise.Slope {
		bind.Implement(op.GradAgainOp(o), bind.Implementation{F32: binaryAgain(f32, g32), F64: binaryAgain(f64, g64), Blocks: ofTwoAgain, Scratch: slopeScratch})
	}
}

// How functions of one and of two tensors are cut.
var (
	ofOne = bind.Cuts{Along: bind.Elements, Of: []int{0, ^0}}
	ofTwo = bind.Cuts{Along: bind.Elements, Of: []int{0, 1, ^0}}

	ofTwoAgain = bind.Cuts{Along: bind.Elements, Of: []int{0, 1, ^0, ^1}}
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
	bind.Override(op.GradAgainOp(o), func(func(*bind.Binder[float32]) bind.Job) func(*bind.Binder[float32]) bind.Job { return slopesAgain(f) })
}

// slopeBlock is how many slopes slopesAgain has in scratch memory: with their operands they fit the L1 cache.
const slopeBlock = 2048

func slopeScratch(*plan.Step, int) int { return slopeBlock }

// slopesAgain is a gradient that makes the function's output again, block by block with the
// slopes in scratch memory.
func slopesAgain(both func(x, y []float32, s op.Scalars)) func(*bind.Binder[float32]) bind.Job {
	return func(b *bind.Binder[float32]) bind.Job {
		s, x, dy, scratch := scalars(b.Step), b.In(0), b.In(1), b.Scratches()
		dx, _ := b.Out(0)
		y, _ := b.Out(1)
		return b.Split(len(dx), shareElems, func(c *plan.Call, part, lo, hi int) {
			for x, dy := x(c), dy(c); lo < hi; lo += slopeBlock {
				end := min(lo+slopeBlock, hi)
				slope := scratch[part][:end-lo]
				copy(slope, x[lo:end])
				both(slope, y[lo:end], s)
				elementwise.Mul(slope, dy[lo:end], dx[lo:end])
			}
		})
	}
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

// binaryAgain runs a gradient, and then the function, whose output may lie over x.
func binaryAgain[T kernel.Float](f func(x, y []T, s op.Scalars), grad func(x, dy, dx []T, s op.Scalars)) func(*bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		s, x, dy := scalars(b.Step), b.In(0), b.In(1)
		dx, _ := b.Out(0)
		y, _ := b.Out(1)
		return b.Split(len(dx), shareElems, func(c *plan.Call, _, lo, hi int) {
			grad(x(c)[lo:hi], dy(c)[lo:hi], dx[lo:hi], s)
			f(x(c)[lo:hi], y[lo:hi], s)
		})
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
