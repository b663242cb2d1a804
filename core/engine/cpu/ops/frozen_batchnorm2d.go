package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	channels := bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, ^0}}
	bind.Implement(op.FrozenBatchNorm, bind.Implementation{F32: bindBatchNormEval[float32], F64: bindBatchNormEval[float64], Blocks: channels, Scratch: frozenScratch})
	channels.Of = []int{0, 1, 2, 3, 4, ^0, ^1, ^2}
	bind.Implement(op.FrozenBatchNormGrad, bind.Implementation{F32: bindFrozenBatchNormGrad[float32], F64: bindFrozenBatchNormGrad[float64], Blocks: channels, Scratch: frozenScratch})
}

// frozenScratch is room for 1/σ of the running statistics.
func frozenScratch(s *plan.Step, _ int) int { return s.In[3].Spec.Shape[0] }

// bindFrozenBatchNormGrad computes dx = dy·weight/σ, dweight = Σdy·(x−mean)/σ and
// dbias = Σdy with the running statistics (aten/src/ATen/native/Normalization.cpp,
// batch_norm_backward in evaluation).
func bindFrozenBatchNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	a := b.Step.Attr.(op.BatchNormAttr)
	dy, x, mean, variance, weight, invstd := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.Scratch()
	dx, _ := b.Out(0)
	dw, add := b.Out(1)
	db, addBias := b.Out(2)
	if dw == nil {
		add = addBias
	}
	sumDy, sumDyXmu, zero := make([]T, ch), make([]T, ch), make([]T, ch)
	return func(c *plan.Call) {
		invert(variance(c), invstd, a.Eps)
		if dw != nil || db != nil {
			norm.BatchNormGradReduce(n, ch, hw, x(c), dy(c), mean(c), sumDy, sumDyXmu)
			affineGrad(sumDy, sumDyXmu, invstd, dw, db, add(c))
		}
		if dx != nil {
			norm.BatchNormApply(n, ch, hw, dy(c), zero, invstd, weight(c), nil, dx)
		}
	}
}
