package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.LayerNorm, implementation{f32: bindLayerNorm[float32], f64: bindLayerNorm[float64], blocks: cuts{along: images, of: []int{0, ^0, ^1, ^2}}})
	implement(op.LayerNormGrad, implementation{f32: bindLayerNormGrad[float32], f64: bindLayerNormGrad[float64], blocks: cuts{along: images, of: []int{0, 1, 2, 3, ^0}}, scratch: unwantedGrad})
}

func bindLayerNorm[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(op.LayerNormAttr)
	rows := b.s.In[0].Spec.Shape.Elems() / a.Cols
	x, weight, bias := b.in(0), b.in(1), b.in(2)
	y, _ := b.out(0)
	mean, _ := b.out(1)
	invstd, _ := b.out(2)
	return b.split(rows, max(1, shareElems/a.Cols), func(c *plan.Call, _, lo, hi int) {
		at := lo * a.Cols
		norm.LayerNorm(hi-lo, a.Cols, x(c)[at:], weight(c), bias(c), a.Eps, y[at:hi*a.Cols], mean[lo:hi], invstd[lo:hi])
	})
}

func bindLayerNormGrad[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(op.LayerNormAttr)
	rows := b.s.In[0].Spec.Shape.Elems() / a.Cols
	x, dy, mean, invstd, weight := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)
	dx, dw, db, add := b.normOut()
	return func(c *plan.Call) {
		norm.LayerNormGrad(rows, a.Cols, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	}
}
