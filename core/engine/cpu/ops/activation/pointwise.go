package activation

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
	bind.Implement(o, bind.Implementation{F32: bind.Unary(f32), F64: bind.Unary(f64), Blocks: bind.OfOne})
	bind.Implement(op.GradOp(o), bind.Implementation{F32: bind.Binary(g32), F64: bind.Binary(g64), Blocks: bind.OfTwo})
	if op.Of(o).Pointwise.Slope {
		bind.Implement(op.GradAgainOp(o), bind.Implementation{F32: binaryAgain(f32, g32), F64: binaryAgain(f64, g64), Blocks: againCuts, Scratch: slopeScratch})
	}
	Functions[o] = &Function{F32: Kernels[float32]{f32, g32}, F64: Kernels[float64]{f64, g64}}
}

// Functions are what other steps may compute on their way: those of pointwise.
var Functions = map[graph.Op]*Function{}

// Function is a function of one element.
type Function struct {
	F32 Kernels[float32]
	F64 Kernels[float64]

	// AndSlope computes y and replaces x by the slope, if the function has such a kernel.
	AndSlope func(x, y []float32, s op.Scalars)
}

// Kernels compute y from x, which may be one slice, and dx from dy, which may be one slice, and from what the function saves.
type Kernels[T kernel.Float] struct {
	Forward  func(x, y []T, s op.Scalars)
	Gradient func(saved, dy, dx []T, s op.Scalars)
}

// againCuts are those of a gradient that makes the function's output again.
var againCuts = bind.Cuts{Along: bind.Elements, Of: []int{0, 1, ^0, ^1}}

// keepSlope enters a kernel that replaces x by the slope, for steps in float32 that allow it.
// Their gradients then multiply.
func keepSlope(o graph.Op, f func(x, y []float32, s op.Scalars)) {
	Functions[o].AndSlope = f
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
	either(o, bind.Unary(f))
	either(op.GradOp(o), bind.Binary(func(slope, dy, dx []float32, _ op.Scalars) { elementwise.Mul(slope, dy, dx) }))
	bind.Override(op.GradAgainOp(o), func(func(*bind.Binder[float32]) bind.Job) func(*bind.Binder[float32]) bind.Job { return slopesAgain(f) })
}

// slopeBlock is how many slopes slopesAgain has in scratch memory: with their operands they fit the L1 cache.
const slopeBlock = 2048

func slopeScratch(*plan.Step, int) int { return slopeBlock }

// slopesAgain is a gradient that makes the function's output again, block by block with the
// slopes in scratch memory.
func slopesAgain(both func(x, y []float32, s op.Scalars)) func(*bind.Binder[float32]) bind.Job {
	return func(b *bind.Binder[float32]) bind.Job {
		s, x, dy, scratch := bind.Scalars(b.Step), b.In(0), b.In(1), b.Scratches()
		dx, _ := b.Out(0)
		y, _ := b.Out(1)
		return b.Split(len(dx), bind.ShareElems, func(c *plan.Call, part, lo, hi int) {
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

// binaryAgain runs a gradient, and then the function, whose output may lie over x.
func binaryAgain[T kernel.Float](f func(x, y []T, s op.Scalars), grad func(x, dy, dx []T, s op.Scalars)) func(*bind.Binder[T]) bind.Job {
	return func(b *bind.Binder[T]) bind.Job {
		s, x, dy := bind.Scalars(b.Step), b.In(0), b.In(1)
		dx, _ := b.Out(0)
		y, _ := b.Out(1)
		return b.Split(len(dx), bind.ShareElems, func(c *plan.Call, _, lo, hi int) {
			grad(x(c)[lo:hi], dy(c)[lo:hi], dx[lo:hi], s)
			f(x(c)[lo:hi], y[lo:hi], s)
		})
	}
}
