package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.ClassToken, func(b *binder) {
		y := b.s.Out[0].Spec
		b.elementwise(y.DType, "class_token", y.Shape.Elems(), b.in(0), b.in(1), y.Shape[1:].Elems(), y.Shape[2], b.out(0))
	})
	implement(op.ClassTokenGrad, func(b *binder) {
		y := b.s.In[0].Spec
		sample, width := y.Shape[1:].Elems(), y.Shape[2]
		if b.s.Out[0].Present() {
			b.elementwise(y.DType, "copy_rows", y.Shape[0]*(sample-width), b.in(0), sample, width, b.out(0), sample-width, 0, sample-width)
		}
		if b.s.Out[1].Present() {
			b.elementwise(y.DType, "class_token_grad", width, b.in(0), y.Shape[0], sample, b.out(1), typeOf(b.s.Out, 1), b.adds(1))
		}
	})
}
