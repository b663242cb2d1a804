package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.PositionEmbedding, implementation{f32: bindPositions[float32], f64: bindPositions[float64]})
	implement(op.PositionEmbeddingGrad, implementation{f32: bindPositionsGrad[float32], f64: bindPositionsGrad[float64]})
}

func bindPositions[T kernel.Float](b *binder[T]) job {
	images := b.s.In[0].Spec.Shape[0]
	x, table := b.in(0), b.in(1)
	y, _ := b.out(0)
	each := len(y) / images
	return b.split(images, max(1, shareElems/each), func(c *plan.Call, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			elementwise.Add(x(c)[i*each:][:each], table(c)[:each], y[i*each:][:each])
		}
	})
}

// bindPositionsGrad gives rows that no position uses a gradient of zero.
func bindPositionsGrad[T kernel.Float](b *binder[T]) job {
	images := b.s.In[0].Spec.Shape[0]
	each := b.s.In[0].Spec.Shape.Elems() / images
	dy := b.in(0)
	dw, add := b.out(0)
	return func(c *plan.Call) {
		if !add(c) {
			clear(dw[each:])
		}
		elementwise.BiasGrad(images, each, dy(c), dw[:each], add(c))
	}
}
