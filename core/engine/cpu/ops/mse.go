package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindMSE[float32], F64: bindMSE[float64]}
	bind.Implement(op.MSE, both)
	bind.Implement(op.MSEGrad, both)
}

func bindMSE[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n := b.Step.In[0].Spec.Shape.Elems()
	x, target := b.In(0), b.In(1)
	stats, dx := lossOut(b, op.MSE)
	return lossParts(b, n, bind.ShareElems, func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		var grad []T
		if dx != nil {
			grad = dx[lo:hi]
		}
		return loss.MSE(x(c)[lo:hi], target(c)[lo:hi], grad, T(c.GradScale/float64(n))), float64(hi - lo), 0
	}, stats)
}
