package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.Softmax, func(b *binder) {
		x := b.s.In[0].Spec
		cols := x.Shape[len(x.Shape)-1]
		b.launch(x.DType, "softmax", x.Shape.Elems()/cols, 1, b.in(0), cols, b.out(0))
	})
	implement(op.SoftmaxGrad, func(b *binder) {
		y := b.s.In[0].Spec
		cols := y.Shape[len(y.Shape)-1]
		b.launch(y.DType, "softmax_grad", y.Shape.Elems()/cols, 1, b.in(0), b.in(1), cols, b.out(0))
	})
}
