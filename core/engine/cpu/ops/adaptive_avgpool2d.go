package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindAdaptivePool[float32], F64: bindAdaptivePool[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}}
	bind.Implement(op.AdaptiveAvgPool, both)
	bind.Implement(op.AdaptiveAvgPoolGrad, both)
}

func bindAdaptivePool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	in, out := b.Step.In[0].Spec.Shape, b.Step.Out[0].Spec.Shape
	x := b.In(0)
	y, _ := b.Out(0)
	if b.Step.Op == op.AdaptiveAvgPoolGrad {
		return func(c *plan.Call) {
			pool.AdaptiveAvgPool2DGrad(out[0], out[1], out[2], out[3], in[2], in[3], x(c), y)
		}
	}
	return func(c *plan.Call) {
		pool.AdaptiveAvgPool2D(in[0], in[1], in[2], in[3], out[2], out[3], x(c), y)
	}
}
