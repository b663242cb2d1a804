package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Dropout, implementation{f32: bindDropout[float32], f64: bindDropout[float64]})
	implement(op.DropoutGrad, implementation{f32: bindDropoutGrad[float32], f64: bindDropoutGrad[float64], blocks: ofTwo})
}

// bindDropout draws the mask anew in every call, from the run's seed, the call's
// stream and the layer.
func bindDropout[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(op.DropoutAttr)
	x, mask, scale := b.in(0), index[uint8](b.m, &b.s.Out[1]), dropoutScale[T](a.P)
	y, _ := b.out(0)
	return func(c *plan.Call) {
		random.DropoutMask(c.Seed, c.Stream|a.Layer, a.P, mask)
		elementwise.Dropout(mask, scale, x(c), y)
	}
}

func bindDropoutGrad[T kernel.Float](b *binder[T]) job {
	mask, dy, scale := index[uint8](b.m, &b.s.In[0]), b.in(1), dropoutScale[T](b.s.Attr.(op.DropoutAttr).P)
	dx, _ := b.out(0)
	return func(c *plan.Call) { elementwise.Dropout(mask, scale, dy(c), dx) }
}

// dropoutScale keeps the expectation; with p = 1 nothing is left to scale.
func dropoutScale[T kernel.Float](p float64) T {
	if p >= 1 {
		return 0
	}
	return T(1 / (1 - p))
}
