package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.Upsample, func(b *binder) { bindUpsample(b, "upsample", b.s.In[0].Spec.Shape) })
	implement(op.UpsampleGrad, func(b *binder) { bindUpsample(b, "upsample_grad", b.s.Out[0].Spec.Shape) })
}

func bindUpsample(b *binder, kernel string, small []int) {
	a, to := b.s.Attr.(op.UpsampleAttr), b.s.Out[0].Spec
	b.elementwise(to.DType, kernel, to.Shape.Elems(), b.in(0), small[2], small[3], a.Scale, flag(a.Bilinear), b.out(0))
}
