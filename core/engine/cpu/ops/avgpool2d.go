package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindAvgPool[float32], F64: bindAvgPool[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}}
	bind.Implement(op.AvgPool, both)
	bind.Implement(op.AvgPoolGrad, both)
}

func bindAvgPool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	x := b.In(0)
	y, _ := b.Out(0)
	if b.Step.Op == op.AvgPoolGrad {
		p := poolGeometry(b.Step, b.Step.Out[0].Spec.Shape)
		return func(c *plan.Call) { pool.AvgPool2DGrad(&p, x(c), y) }
	}
	p := poolGeometry(b.Step, b.Step.In[0].Spec.Shape)
	return func(c *plan.Call) { pool.AvgPool2D(&p, x(c), y) }
}
