package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.FrozenBatchNorm, func(b *binder) { b.normApply(b.normRunning(b.s.Attr.(op.BatchNormAttr)), 0, 0) })
	implement(op.FrozenBatchNormGrad, bindFrozenBatchNormGrad)
}

// bindFrozenBatchNormGrad sums up the gradients of weight and bias, and scales dy.
func bindFrozenBatchNormGrad(b *binder) {
	dy := b.s.In[0].Spec
	v := b.images(dy.Shape)
	t, none := typeOf(b.s.In, 2), driver.DevicePtr(0)
	known := b.newAffine(b.scratch(8 * v.c)) // scale is 1/σ, as there is no weight
	b.launch(dy.DType, "bn_running", grid(v.c), 1, b.in(2), b.in(3), t, v.c, b.s.Attr.(op.BatchNormAttr).Eps, known.mean, none, none, known.scale, known.shift)
	if b.s.Out[1].Present() || b.s.Out[2].Present() {
		part := b.scratch(8 * 2 * v.c * v.shares)
		b.gradSums(v, b.in(1), 0, b.in(0), known.mean, part, 0)
		b.mergeGrad(part, v, known.scale, 4, 0, 0)
	}
	if !b.s.Out[0].Present() {
		return
	}
	f := b.newAffine(known.shift) // no bias: all zeros
	b.launch(dy.DType, "bn_known", grid(v.c), 1, known.scale, v.c, b.in(4), none, t, f.scale, f.shift)
	b.normApply(f, 0, 0)
}
