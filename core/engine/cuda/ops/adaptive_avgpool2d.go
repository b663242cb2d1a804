package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.AdaptiveAvgPool, bindAdaptivePool)
	implement(op.AdaptiveAvgPoolGrad, bindAdaptivePool)
}

func bindAdaptivePool(b *binder) {
	x, y, name := b.s.In[0].Spec, b.s.Out[0].Spec, "adaptive_pool"
	from, to := x.Shape, y.Shape
	if b.s.Op == op.AdaptiveAvgPoolGrad {
		from, to, name = to, from, "adaptive_pool_grad"
	}
	b.elementwise(x.DType, name, y.Shape.Elems(), b.in(0), b.out(0), from[1], from[2], from[3], to[2], to[3], flag(b.last()))
}
