package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.ConvTranspose2D, bind.Implementation{F32: bindConvTranspose[float32], F64: bindConvTranspose[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: convScratch, WideWeight: true})
}

// bindConvTranspose adds the bias as a normalisation with mean 0 and variance 1 does.
func bindConvTranspose[T kernel.Float](b *bind.Binder[T]) bind.Job {
	product := bindConvGradInput(b)
	if !b.Step.In[2].Present() {
		return product
	}
	n, ch, hw := planes(b.Step.Out[0].Spec.Shape)
	bias, mean, invstd := b.In(2), make([]T, ch), make([]T, ch)
	elementwise.Fill(invstd, 1)
	y, _ := b.Out(0)
	shift := b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		images := y[lo*ch*hw : hi*ch*hw]
		norm.BatchNormApply(hi-lo, ch, hw, images, mean, invstd, nil, bias(c), images)
	})
	return func(c *plan.Call) {
		product(c)
		shift(c)
	}
}
