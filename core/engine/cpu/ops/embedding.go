package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.Embedding, bind.Implementation{F32: bindEmbedding[float32], F64: bindEmbedding[float64]})
	bind.Implement(op.EmbeddingGrad, bind.Implementation{F32: bindEmbeddingGrad[float32], F64: bindEmbeddingGrad[float64]})
}

func bindEmbedding[T kernel.Float](b *bind.Binder[T]) bind.Job {
	at, table, dim := b.Memory.Place(&b.Step.In[0]), b.In(1), b.Step.In[1].Spec.Shape[1]
	y, _ := b.Out(0)
	entries := b.Step.In[1].Spec.Shape[0]
	return func(c *plan.Call) {
		v := tensor.View[int32](at.Bytes(c))
		if b.Memory.Check(b.Step.Layer, v, entries, 0) {
			elementwise.Embedding(v, dim, table(c), y)
		}
	}
}

func bindEmbeddingGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	at, dy, dim := b.Memory.Place(&b.Step.In[0]), b.In(1), b.Step.Out[0].Spec.Shape[1]
	dt, add := b.Out(0)
	return func(c *plan.Call) {
		if b.Memory.Fault.Limit == 0 {
			elementwise.EmbeddingGrad(tensor.View[int32](at.Bytes(c)), dim, dy(c), dt, add(c))
		}
	}
}
