package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := implementation{f32: bindAvgPool[float32], f64: bindAvgPool[float64], blocks: cuts{along: images, of: []int{0, ^0}}}
	implement(op.AvgPool, both)
	implement(op.AvgPoolGrad, both)
}

func bindAvgPool[T kernel.Float](b *binder[T]) job {
	x := b.in(0)
	y, _ := b.out(0)
	if b.s.Op == op.AvgPoolGrad {
		p := poolGeometry(b.s, b.s.Out[0].Spec.Shape)
		return func(c *plan.Call) { pool.AvgPool2DGrad(&p, x(c), y) }
	}
	p := poolGeometry(b.s, b.s.In[0].Spec.Shape)
	return func(c *plan.Call) { pool.AvgPool2D(&p, x(c), y) }
}
