package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.Embedding, bindEmbedding)
	implement(op.EmbeddingGrad, bindEmbeddingGrad)
}

// bindEmbedding ignores index 0 where it checks: it is never wrong.
func bindEmbedding(b *binder) {
	table, n := b.s.In[1].Spec, b.s.In[0].Spec.Shape.Elems()
	b.launch(table.DType, "check_indices", 1, 1, b.in(0), n, table.Shape[0], 0, b.step, b.m.Fault, driver.DevicePtr(0))
	b.elementwise(table.DType, "embedding", n*table.Shape[1], b.in(0), b.in(1), b.out(0), table.Shape[0], table.Shape[1])
}

func bindEmbeddingGrad(b *binder) {
	table := b.s.Out[0].Spec
	b.launch(table.DType, "embedding_grad", table.Shape[0], 1, b.in(0), b.in(1), b.s.In[0].Spec.Shape.Elems(), table.Shape[1], b.out(0), b.adds(0))
}
