package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := implementation{f32: bindMSE[float32], f64: bindMSE[float64]}
	implement(op.MSE, both)
	implement(op.MSEGrad, both)
}

func bindMSE[T kernel.Float](b *binder[T]) job {
	n := b.s.In[0].Spec.Shape.Elems()
	x, target := b.in(0), b.in(1)
	stats, dx := b.lossOut(op.MSE)
	return func(c *plan.Call) {
		sum := loss.MSE(x(c), target(c), dx, T(c.GradScale/float64(n)))
		if stats != nil {
			stats[0], stats[1], stats[2] = sum, float64(n), 0
		}
	}
}
