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
		if op.Of(op.NormOp(o)) == nil {
			continue
		}
		f64 := normFunction[float64]{o, f.F64, nil}
		f32 := normFunction[float32]{o, f.F32, f.AndSlope}
		bind.Implement(op.NormOp(o), bind.Implementation{F32: f32.bind, F64: f64.bind, Scratch: runningScratch})
		bind.Implement(op.GradOp(op.NormOp(o)), bind.Implementation{F32: f32.bindGrad, F64: f64.bindGrad, Scratch: normFunctionScratch})
		if op.Of(o).Pointwise.Slope {
			bind.Implement(op.GradAgainOp(op.NormOp(o)), bind.Implementation{F32: f32.bindGrad, F64: f64.bindGrad, Scratch: normFunctionScratch})
		} else {
			bind.Implement(op.NormAgainOp(o), bind.Implementation{F32: f32.bindAgain, F64: f64.bindAgain})
		}
	}
}

// normFunction is a function behind a batch norm.
type normFunction[T kernel.Float] struct {
	op       graph.Op
	kernels  activation.Kernels[T]
	andSlope func(x, y []T, s op.Scalars) // or nil
}

// normNames are the functions that package norm knows.
var normNames = map[graph.Op]norm.FunctionName{activations.ReLU6: norm.ReLU6, activations.SiLU: norm.SiLU}

// of is the function with a step's scalars.
func (f normFunction[T]) of(step *plan.Step) *norm.Function[T] {
	s, _ := step.Attr.(op.NormFunctionAttr).Function.(op.Scalars)
	k := &norm.Function[T]{
		Name:     normNames[f.op],
		Forward:  func(x, y []T) { f.kernels.Forward(x, y, s) },
		Gradient: func(x, dy, dx []T) { f.kernels.Gradient(x, dy, dx, s) },
	}
	if f.andSlope != nil {
		k.AndSlope = func(x, y []T) { f.andSlope(x, y, s) }
	}
	if op.Of(f.op).Pointwise.Saved == op.SavedOutput && f.op != activations.ReLU6 { // whose gradient is the same of what it clips
		k.Gradient = func(x, dy, dx []T) {
			f.kernels.Forward(x, x, s)
			f.kernels.Gradient(x, dy, dx, s)
		}
	}
	return k
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
	x, weight, bias, function := b.In(0), b.In(1), b.In(2), f.of(b.Step)
	y, _ := b.Out(0)
	return b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		at := lo * ch * hw
		norm.BatchNormFunction(hi-lo, ch, hw, x(c)[at:], mean(c), invstd(c), weight(c), bias(c), function, y[at:])
	})
}

// bindGrad is the gradient, which makes the output again where the step has a fourth output.
func (f normFunction[T]) bindGrad(b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, dy, mean, invstd, weight, bias := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.In(5)
	dx, dw, db, add := normOut(b)
	var y []T
	if len(b.Step.Out) > 3 {
		y, _ = b.Out(3)
	}
	function, scratch := f.of(b.Step), b.Scratches()
	return b.Split(ch, 1, func(c *plan.Call, part, lo, hi int) {
		norm.BatchNormFunctionGradOf(lo, hi, n, ch, hw, x(c), dy(c), mean(c), invstd(c), weight(c), bias(c), function, dx, dw, db, add(c), y, scratch[part])
	})
}
