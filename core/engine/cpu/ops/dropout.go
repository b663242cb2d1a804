package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.Dropout, bind.Implementation{F32: bindDropout[float32], F64: bindDropout[float64]})
	bind.Implement(op.DropoutGrad, bind.Implementation{F32: bindDropoutGrad[float32], F64: bindDropoutGrad[float64], Blocks: bind.OfTwo})
}

// bindDropout draws the mask anew in every call, from the run's seed, the call's
// stream and the layer.
func bindDropout[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.DropoutAttr)
	x, mask, scale := b.In(0), bind.Index[uint8](b.Memory, &b.Step.Out[1]), dropoutScale[T](a.P)
	y, _ := b.Out(0)
	return b.Split(len(y), bind.ShareElems, func(c *plan.Call, _, lo, hi int) {
		random.DropoutMaskFrom(c.Seed, c.Stream|a.Layer, a.P, uint64(lo), mask[lo:hi])
		elementwise.Dropout(mask[lo:hi], scale, x(c)[lo:hi], y[lo:hi])
	})
}

func bindDropoutGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	mask, dy, scale := bind.Index[uint8](b.Memory, &b.Step.In[0]), b.In(1), dropoutScale[T](b.Step.Attr.(op.DropoutAttr).P)
	dx, _ := b.Out(0)
	return b.Split(len(dx), bind.ShareElems, func(c *plan.Call, _, lo, hi int) {
		elementwise.Dropout(mask[lo:hi], scale, dy(c)[lo:hi], dx[lo:hi])
	})
}

// dropoutScale keeps the expectation; with p = 1 nothing is left to scale.
func dropoutScale[T kernel.Float](p float64) T {
	if p >= 1 {
		return 0
	}
	return T(1 / (1 - p))
}
