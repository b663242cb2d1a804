package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.PositionEmbedding, bind.Implementation{F32: bindPositions[float32], F64: bindPositions[float64]})
	bind.Implement(op.PositionEmbeddingGrad, bind.Implementation{F32: bindPositionsGrad[float32], F64: bindPositionsGrad[float64]})
}

func bindPositions[T kernel.Float](b *bind.Binder[T]) bind.Job {
	images := b.Step.In[0].Spec.Shape[0]
	x, table := b.In(0), b.In(1)
	y, _ := b.Out(0)
	each, width := len(y)/images, b.Step.In[1].Spec.Shape[len(b.Step.In[1].Spec.Shape)-1]
	return b.Split(images, max(1, bind.ShareElems/each), func(c *plan.Call, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			elementwise.Add(x(c)[i*each:][:each], table(c)[c.Position*width:][:each], y[i*each:][:each])
		}
	})
}

// bindPositionsGrad gives rows that no position uses a gradient of zero.
func bindPositionsGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	images := b.Step.In[0].Spec.Shape[0]
	each := b.Step.In[0].Spec.Shape.Elems() / images
	dy := b.In(0)
	dw, add := b.Out(0)
	return func(c *plan.Call) {
		if !add(c) {
			clear(dw[each:])
		}
		elementwise.BiasGrad(images, each, dy(c), dw[:each], add(c))
	}
}
