package cuda

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// poolGeometry is struct Pool of pool.cu.
type poolGeometry struct {
	c, h, w, oh, ow, r, s, strideH, strideW, padH, padW, countPadding, last int32
}

func (b *binder) pool(a graph.Pool, x, y tensor.Shape) poolGeometry {
	n := func(v int) int32 { return int32(v) }
	p := poolGeometry{
		n(x[1]), n(x[2]), n(x[3]), n(y[2]), n(y[3]), n(a.Kernel[0]), n(a.Kernel[1]),
		n(a.Stride[0]), n(a.Stride[1]), n(a.Padding[0]), n(a.Padding[1]), 0, flag(b.last()),
	}
	p.countPadding = flag(a.CountPadding)
	return p
}

func flag(on bool) int32 {
	if on {
		return 1
	}
	return 0
}

func bindMaxPool(b *binder) {
	x, y := b.s.In[0].Spec, b.s.Out[0].Spec
	b.elementwise(x.DType, "max_pool", y.Shape.Elems(), b.in(0), b.out(0), b.out(1), b.pool(b.s.Attr.(graph.Pool), x.Shape, y.Shape))
}

func bindMaxPoolGrad(b *binder) {
	dy, dx := b.s.In[1].Spec, b.s.Out[0].Spec
	b.elementwise(dx.DType, "max_pool_grad", dx.Shape.Elems(), b.in(0), b.in(1), b.out(0), b.pool(b.s.Attr.(graph.Pool), dx.Shape, dy.Shape))
}

func bindAvgPool(b *binder) {
	x, y, name := b.s.In[0].Spec, b.s.Out[0].Spec, "avg_pool"
	small, large := y, x
	if b.s.Op == graph.AvgPoolGradOp {
		small, large, name = x, y, "avg_pool_grad"
	}
	b.elementwise(x.DType, name, y.Shape.Elems(), b.in(0), b.out(0), b.pool(b.s.Attr.(graph.Pool), large.Shape, small.Shape))
}

func bindAdaptivePool(b *binder) {
	x, y, name := b.s.In[0].Spec, b.s.Out[0].Spec, "adaptive_pool"
	from, to := x.Shape, y.Shape
	if b.s.Op == graph.AdaptiveAvgPoolGradOp {
		from, to, name = to, from, "adaptive_pool_grad"
	}
	b.elementwise(x.DType, name, y.Shape.Elems(), b.in(0), b.out(0), from[1], from[2], from[3], to[2], to[3], flag(b.last()))
}

func bindNormPool(b *binder) {
	a, x, y := b.s.Attr.(plan.NormPool), b.s.In[0].Spec, b.s.Out[0].Spec
	f := b.normStats(a.Norm, 2)
	b.elementwise(x.DType, "norm_pool", y.Shape.Elems(), b.in(0), f.mean, f.scale, f.shift, b.out(0), b.out(1), b.pool(a.Pool, x.Shape, y.Shape))
}

func bindNormPoolGrad(b *binder) {
	x, y := b.s.In[0].Spec, b.s.In[1].Spec
	v := b.images(x.Shape).single()
	p := b.pool(b.s.Attr.(plan.NormPool).Pool, x.Shape, y.Shape)
	part, slopes := b.scratch(8*2*v.c*v.shares), b.scratch(8*3*v.c)
	b.launch(x.DType, "norm_pool_grad_sums", v.blocks(), v.shares, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), p, x.Shape[0], v.lanes, part)
	b.mergeGrad(part, v, b.in(5), 6, slopes, 0)
	b.launch(x.DType, "norm_pool_grad_input", v.blocks(), v.shares, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), slopes, b.out(0), p, x.Shape[0], v.lanes, part)
	if len(b.s.Out) > 3 && b.s.Out[3].Present() {
		b.launch(x.DType, "sum_parts", v.c, 1, part, v.shares, b.out(3), typeOf(b.s.Out, 3), b.adds(3))
	}
}
