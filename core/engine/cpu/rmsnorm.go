package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.RMSNorm, implementation{f32: bindRMSNorm[float32], f64: bindRMSNorm[float64]})
	implement(op.RMSNormGrad, implementation{f32: bindRMSNormGrad[float32], f64: bindRMSNormGrad[float64], scratch: unwantedGrad})
}

func bindRMSNorm[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(op.LayerNormAttr)
	x, weight := b.in(0), b.in(1)
	y, _ := b.out(0)
	invrms, _ := b.out(1)
	return b.split(len(y)/a.Cols, max(1, shareElems/a.Cols), func(c *plan.Call, _, lo, hi int) {
		norm.RMSNorm(hi-lo, a.Cols, x(c)[lo*a.Cols:], weight(c), a.Eps, y[lo*a.Cols:hi*a.Cols], invrms[lo:hi])
	})
}

func bindRMSNormGrad[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(op.LayerNormAttr)
	rows := b.s.In[0].Spec.Shape.Elems() / a.Cols
	x, dy, invrms, weight := b.in(0), b.in(1), b.in(2), b.in(3)
	dx, dw, _, add := b.normOut()
	return func(c *plan.Call) {
		norm.RMSNormGrad(rows, a.Cols, x(c), dy(c), invrms(c), weight(c), dx, dw, add(c))
	}
}
