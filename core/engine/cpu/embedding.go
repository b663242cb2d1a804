package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Embedding, implementation{f32: bindEmbedding[float32], f64: bindEmbedding[float64]})
	implement(op.EmbeddingGrad, implementation{f32: bindEmbeddingGrad[float32], f64: bindEmbeddingGrad[float64]})
}

func bindEmbedding[T kernel.Float](b *binder[T]) job {
	at, table, dim := b.m.place(&b.s.In[0]), b.in(1), b.s.In[1].Spec.Shape[1]
	y, _ := b.out(0)
	entries := b.s.In[1].Spec.Shape[0]
	return func(c *plan.Call) {
		v := tensor.View[int32](at.bytes(c))
		if b.m.check(b.s.Layer, v, entries, 0) {
			elementwise.Embedding(v, dim, table(c), y)
		}
	}
}

func bindEmbeddingGrad[T kernel.Float](b *binder[T]) job {
	at, dy, dim := b.m.place(&b.s.In[0]), b.in(1), b.s.Out[0].Spec.Shape[1]
	dt, add := b.out(0)
	return func(c *plan.Call) {
		if b.m.fault.limit == 0 {
			elementwise.EmbeddingGrad(tensor.View[int32](at.bytes(c)), dim, dy(c), dt, add(c))
		}
	}
}
