package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.MaxPool, bindMaxPool)
	implement(op.MaxPoolGrad, bindMaxPoolGrad)
}

// poolGeometry is struct Pool of pool.cu.
type poolGeometry struct {
	c, h, w, oh, ow, r, s, strideH, strideW, padH, padW, countPadding, last int32
}

func (b *binder) pool(a op.PoolAttr, x, y tensor.Shape) poolGeometry {
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
	b.elementwise(x.DType, "max_pool", y.Shape.Elems(), b.in(0), b.out(0), b.out(1), b.pool(b.s.Attr.(op.PoolAttr), x.Shape, y.Shape))
}

func bindMaxPoolGrad(b *binder) {
	dy, dx := b.s.In[1].Spec, b.s.Out[0].Spec
	b.elementwise(dx.DType, "max_pool_grad", dx.Shape.Elems(), b.in(0), b.in(1), b.out(0), b.pool(b.s.Attr.(op.PoolAttr), dx.Shape, dy.Shape))
}
