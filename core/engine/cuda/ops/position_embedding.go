package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.PositionEmbedding, func(b *binder) {
		x := b.s.In[0].Spec
		b.elementwise(x.DType, "position_embedding", x.Shape.Elems(), b.in(0), b.in(1), x.Shape[1:].Elems(), b.out(0))
	})
	implement(op.PositionEmbeddingGrad, func(b *binder) {
		x := b.s.In[0].Spec
		b.elementwise(x.DType, "position_embedding_grad", b.s.Out[0].Spec.Shape.Elems(), b.in(0), x.Shape[0], x.Shape[1:].Elems(), b.out(0), typeOf(b.s.Out, 0), b.adds(0))
	})
}
