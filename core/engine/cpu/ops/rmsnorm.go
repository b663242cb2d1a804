package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.RMSNorm, bind.Implementation{F32: bindRMSNorm[float32], F64: bindRMSNorm[float64], Half: halfRowNorm})
	bind.Implement(op.RMSNormGrad, bind.Implementation{F32: bindRMSNormGrad[float32], F64: bindRMSNormGrad[float64], Half: halfRowNorm, Scratch: rowGradScratch})
}

func bindRMSNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	x, weight := b.In(0), b.In(1)
	y, _ := b.Out(0)
	invrms, _ := b.Out(1)
	return b.Split(len(y)/a.Cols, max(1, bind.ShareElems/a.Cols), func(c *plan.Call, _, lo, hi int) {
		layernorm.RMSNorm(hi-lo, a.Cols, x(c)[lo*a.Cols:], weight(c), a.Eps, y[lo*a.Cols:hi*a.Cols], invrms[lo:hi])
	})
}

func bindRMSNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	rows := b.Step.In[0].Spec.Shape.Elems() / a.Cols
	x, dy, invrms, weight := b.In(0), b.In(1), b.In(2), b.In(3)
	g := newRowGrad(b, rows, a.Cols)
	return g.share(b, func(c *plan.Call, _, lo, hi int, dw, _ []T, add bool) {
		at, end := lo*a.Cols, hi*a.Cols
		layernorm.RMSNormGrad(hi-lo, a.Cols, x(c)[at:end], dy(c)[at:end], invrms(c)[lo:hi], weight(c), g.dx[at:end], dw, add)
	})
}
