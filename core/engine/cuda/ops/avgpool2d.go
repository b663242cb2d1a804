package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.AvgPool, bindAvgPool)
	implement(op.AvgPoolGrad, bindAvgPool)
}

func bindAvgPool(b *binder) {
	x, y, name := b.s.In[0].Spec, b.s.Out[0].Spec, "avg_pool"
	small, large := y, x
	if b.s.Op == op.AvgPoolGrad {
		small, large, name = x, y, "avg_pool_grad"
	}
	b.elementwise(x.DType, name, y.Shape.Elems(), b.in(0), b.out(0), b.pool(b.s.Attr.(op.PoolAttr), large.Shape, small.Shape))
}
