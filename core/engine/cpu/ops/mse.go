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
	return func(c *plan.Call) {
		sum := loss.MSE(x(c), target(c), dx, T(c.GradScale/float64(n)))
		if stats != nil {
			stats[0], stats[1], stats[2] = sum, float64(n), 0
		}
	}
}
