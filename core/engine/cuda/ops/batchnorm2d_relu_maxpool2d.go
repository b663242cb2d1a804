package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.NormPool, bindNormPool)
	implement(op.NormPoolGrad, bindNormPoolGrad)
}

func bindNormPool(b *binder) {
	a, x, y := b.s.Attr.(op.NormPoolAttr), b.s.In[0].Spec, b.s.Out[0].Spec
	f := b.normStats(a.Norm, 2)
	b.elementwise(x.DType, "norm_pool", y.Shape.Elems(), b.in(0), f.mean, f.scale, f.shift, b.out(0), b.out(1), b.pool(a.Pool, x.Shape, y.Shape))
}

func bindNormPoolGrad(b *binder) {
	x, y := b.s.In[0].Spec, b.s.In[1].Spec
	v := b.images(x.Shape).single()
	p := b.pool(b.s.Attr.(op.NormPoolAttr).Pool, x.Shape, y.Shape)
	part, slopes := b.scratch(8*2*v.c*v.shares), b.scratch(8*3*v.c)
	b.launch(x.DType, "norm_pool_grad_sums", v.blocks(), v.shares, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), p, x.Shape[0], v.lanes, part)
	b.mergeGrad(part, v, b.in(5), 6, slopes, 0)
	b.launch(x.DType, "norm_pool_grad_input", v.blocks(), v.shares, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), slopes, b.out(0), p, x.Shape[0], v.lanes, part)
	if len(b.s.Out) > 3 && b.s.Out[3].Present() {
		b.launch(x.DType, "sum_parts", v.c, 1, part, v.shares, b.out(3), typeOf(b.s.Out, 3), b.adds(3))
	}
}
