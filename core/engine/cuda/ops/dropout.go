package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.Dropout, bindDropout)
	implement(op.DropoutGrad, bindDropoutGrad)
}

func bindDropout(b *binder) {
	a, x := b.s.Attr.(op.DropoutAttr), b.s.In[0].Spec
	b.elementwise(x.DType, "dropout", x.Shape.Elems(), b.m.Call, a.Layer, uint64(a.P*(1<<32)), scalar(x.DType, 1/(1-a.P)), b.in(0), b.out(0), b.out(1))
}

func bindDropoutGrad(b *binder) {
	a, x := b.s.Attr.(op.DropoutAttr), b.s.In[1].Spec
	b.elementwise(x.DType, "dropout_grad", x.Shape.Elems(), b.in(0), scalar(x.DType, 1/(1-a.P)), b.in(1), b.out(0))
}
