package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.LayerNorm, bind.Implementation{F32: bindLayerNorm[float32], F64: bindLayerNorm[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0, ^1, ^2}}})
	bind.Implement(op.LayerNormGrad, bind.Implementation{F32: bindLayerNormGrad[float32], F64: bindLayerNormGrad[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1, 2, 3, ^0}}, Scratch: unwantedGrad})
}

func bindLayerNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	rows := b.Step.In[0].Spec.Shape.Elems() / a.Cols
	x, weight, bias := b.In(0), b.In(1), b.In(2)
	y, _ := b.Out(0)
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	return b.Split(rows, max(1, bind.ShareElems/a.Cols), func(c *plan.Call, _, lo, hi int) {
		at := lo * a.Cols
		layernorm.LayerNorm(hi-lo, a.Cols, x(c)[at:], weight(c), bias(c), a.Eps, y[at:hi*a.Cols], mean[lo:hi], invstd[lo:hi])
	})
}

func bindLayerNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	rows := b.Step.In[0].Spec.Shape.Elems() / a.Cols
	x, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4)
	dx, dw, db, add := normOut(b)
	return func(c *plan.Call) {
		layernorm.LayerNormGrad(rows, a.Cols, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	}
}
