package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implementElements(op.MSE, func(any) loss.Elements[float32] { return loss.MSE[float32] }, func(any) loss.Elements[float64] { return loss.MSE[float64] })
	implementElements(op.L1, func(any) loss.Elements[float32] { return loss.L1[float32] }, func(any) loss.Elements[float64] { return loss.L1[float64] })
	implementElements(op.BCE, func(any) loss.Elements[float32] { return loss.BCEWithLogits[float32] }, func(any) loss.Elements[float64] { return loss.BCEWithLogits[float64] })
	implementElements(op.Huber,
		func(delta any) loss.Elements[float32] { return loss.Huber(float32(delta.(float64))) },
		func(delta any) loss.Elements[float64] { return loss.Huber(delta.(float64)) })
}

// implementElements enters a loss of elements, made from its attribute, and its gradient.
func implementElements(name graph.Op, in32 func(attr any) loss.Elements[float32], in64 func(attr any) loss.Elements[float64]) {
	both := bind.Implementation{
		F32: func(b *bind.Binder[float32]) bind.Job { return bindElements(b, name, in32(b.Step.Attr)) },
		F64: func(b *bind.Binder[float64]) bind.Job { return bindElements(b, name, in64(b.Step.Attr)) },
	}
	bind.Implement(name, both)
	bind.Implement(op.GradOp(name), both)
}

func bindElements[T kernel.Float](b *bind.Binder[T], name graph.Op, f loss.Elements[T]) bind.Job {
	n := b.Step.In[0].Spec.Shape.Elems()
	x, target := b.In(0), b.In(1)
	stats, dx := lossOut(b, name)
	return lossParts(b, n, bind.ShareElems, func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		var grad []T
		if dx != nil {
			grad = dx[lo:hi]
		}
		return f(x(c)[lo:hi], target(c)[lo:hi], grad, T(c.GradScale/float64(n))), float64(hi - lo), 0
	}, stats)
}
