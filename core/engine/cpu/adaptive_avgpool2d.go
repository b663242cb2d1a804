package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := implementation{f32: bindAdaptivePool[float32], f64: bindAdaptivePool[float64], blocks: cuts{along: images, of: []int{0, ^0}}}
	implement(op.AdaptiveAvgPool, both)
	implement(op.AdaptiveAvgPoolGrad, both)
}

func bindAdaptivePool[T kernel.Float](b *binder[T]) job {
	in, out := b.s.In[0].Spec.Shape, b.s.Out[0].Spec.Shape
	x := b.in(0)
	y, _ := b.out(0)
	if b.s.Op == op.AdaptiveAvgPoolGrad {
		return func(c *plan.Call) {
			pool.AdaptiveAvgPool2DGrad(out[0], out[1], out[2], out[3], in[2], in[3], x(c), y)
		}
	}
	return func(c *plan.Call) {
		pool.AdaptiveAvgPool2D(in[0], in[1], in[2], in[3], out[2], out[3], x(c), y)
	}
}
