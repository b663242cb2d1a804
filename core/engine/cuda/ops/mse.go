package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.MSE, bindMSE)
	implement(op.MSEGrad, bindMSE)
}

func bindMSE(b *binder) {
	x := b.s.In[0].Spec
	n := x.Shape.Elems()
	stats, dx := b.lossOut(op.MSE)
	counted, each := b.scratch(8), b.scratch(16*grid(n))
	b.elementwise(x.DType, "squared_error", n, b.in(0), b.in(1), b.m.Call, dx, each, counted)
	b.report(x.DType, each, grid(n), counted, stats)
}
