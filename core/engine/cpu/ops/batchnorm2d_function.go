package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/cpu/ops/activation"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	activations "github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	for o, f := range activation.Functions {
		if op.Of(op.NormOp(o)) != nil {
			implementNormFunction(o, normFunctionOf(o, f.F32), normFunctionOf(o, f.F64))
		}
	}
}

// normFunction is what a batch norm with a function behind it does after the statistics, and how the function's gradient
// follows from the normalised image: as package norm has them, with the function's scalars.
type normFunction[T kernel.Float] struct {
	apply func(n, c, hw int, x, mean, invstd, weight, bias, y []T, s op.Scalars)
	slope func(x, dy, dx []T, s op.Scalars)
}

// normFunctionOf is any function, or ReLU6, whose gradient is the same for its output and for what it clips.
func normFunctionOf[T kernel.Float](o graph.Op, f activation.Kernels[T]) normFunction[T] {
	if o == activations.ReLU6 {
		return normFunction[T]{
			apply: func(n, c, hw int, x, mean, invstd, weight, bias, y []T, _ op.Scalars) {
				norm.BatchNormReLU6(n, c, hw, x, mean, invstd, weight, bias, y)
			},
			slope: f.Gradient,
		}
	}
	k := normFunction[T]{
		apply: func(n, c, hw int, x, mean, invstd, weight, bias, y []T, s op.Scalars) {
			norm.BatchNormFunction(n, c, hw, x, mean, invstd, weight, bias, func(x, y []T) { f.Forward(x, y, s) }, y)
		},
		slope: f.Gradient,
	}
	if op.Of(o).Pointwise.Saved == op.SavedOutput {
		k.slope = func(x, dy, dx []T, s op.Scalars) {
			f.Forward(x, x, s)
			f.Gradient(x, dy, dx, s)
		}
	}
	return k
}

// implementNormFunction enters batch norm with a function behind it.
func implementNormFunction(o graph.Op, f32 normFunction[float32], f64 normFunction[float64]) {
	bind.Implement(op.NormOp(o), bind.Implementation{F32: f32.bind, F64: f64.bind, Scratch: runningScratch})
	bind.Implement(op.GradOp(op.NormOp(o)), bind.Implementation{F32: f32.bindGrad, F64: f64.bindGrad, Scratch: normFunctionScratch})
	bind.Implement(op.NormAgainOp(o), bind.Implementation{F32: f32.bindAgain, F64: f64.bindAgain})
}

func normFunctionScratch(*plan.Step, int) int { return norm.FunctionElems }

// bind is batch norm and the function in one pass after the statistics.
func (f normFunction[T]) bind(b *bind.Binder[T]) bind.Job {
	mean, invstd, stats := normStats(b, b.Step.Attr.(op.NormFunctionAttr).Norm, b.In(0), 1, b.Scratch())
	apply := f.bindApply(b, mean, bind.Always(invstd))
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

func (f normFunction[T]) bindAgain(b *bind.Binder[T]) bind.Job {
	return f.bindApply(b, b.In(3), b.In(4))
}

// bindApply is what comes after the statistics.
func (f normFunction[T]) bindApply(b *bind.Binder[T], mean, invstd func(*plan.Call) []T) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, weight, bias, s := b.In(0), b.In(1), b.In(2), functionScalars(b.Step)
	y, _ := b.Out(0)
	return b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		at := lo * ch * hw
		f.apply(hi-lo, ch, hw, x(c)[at:], mean(c), invstd(c), weight(c), bias(c), y[at:], s)
	})
}

func (f normFunction[T]) bindGrad(b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, dy, mean, invstd, weight, bias := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.In(5)
	dx, dw, db, add := normOut(b)
	s, scratch := functionScalars(b.Step), b.Scratches()
	slope := func(x, dy, dx []T) { f.slope(x, dy, dx, s) }
	return b.Split(ch, 1, func(c *plan.Call, part, lo, hi int) {
		norm.BatchNormFunctionGradOf(lo, hi, n, ch, hw, x(c), dy(c), mean(c), invstd(c), weight(c), bias(c), slope, dx, dw, db, add(c), scratch[part])
	})
}

func functionScalars(s *plan.Step) op.Scalars {
	v, _ := s.Attr.(op.NormFunctionAttr).Function.(op.Scalars)
	return v
}
