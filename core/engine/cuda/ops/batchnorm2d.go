package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.BatchNorm, bindBatchNorm)
	implement(op.BatchNormGrad, bindBatchNormGrad)
	implement(op.BatchNormAgain, func(b *binder) { b.normApply(b.normKnown(), 0, 0) })
}

func bindBatchNorm(b *binder) { b.normApply(b.normStats(b.s.Attr.(op.BatchNormAttr), 1), 0, 0) }

// affine is what batch norm does to a channel: (x − mean)·scale + shift.
type affine struct{ mean, scale, shift driver.DevicePtr }

func (b *binder) newAffine(mean driver.DevicePtr) affine {
	c := b.s.In[0].Spec.Shape[1]
	return affine{mean, b.scratch(8 * c), b.scratch(8 * c)}
}

// normStats finds the statistics: of the batch, whose mean and 1/σ are written
// to outputs at and at+1, or in evaluation the running ones.
func (b *binder) normStats(a op.BatchNormAttr, at int) affine {
	if b.s.Train {
		part, v := b.moments()
		u, f := b.targets(a, at)
		b.launch(b.s.In[0].Spec.DType, "bn_finish", v.c, 1, part, v.shares, u)
		return f
	}
	return b.normRunning(a)
}

// normRunning is what the running statistics say.
func (b *binder) normRunning(a op.BatchNormAttr) affine {
	x := b.s.In[0].Spec
	c := x.Shape[1]
	f := b.newAffine(b.scratch(8 * c))
	b.launch(x.DType, "bn_running", grid(c), 1, b.in(3), b.in(4), typeOf(b.s.In, 3), c, a.Eps, f.mean, b.in(1), b.in(2), f.scale, f.shift)
	return f
}

// normKnown is what inputs 1 to 4 say: weight, bias, mean and 1/σ.
func (b *binder) normKnown() affine {
	c, t := b.s.In[0].Spec.Shape[1], typeOf(b.s.In, 1)
	if !b.s.In[1].Present() {
		t = typeOf(b.s.In, 2)
	}
	f := b.newAffine(b.in(3))
	b.launch(b.s.In[0].Spec.DType, "bn_known", grid(c), 1, b.in(4), c, b.in(1), b.in(2), t, f.scale, f.shift)
	return f
}

// normTargets is struct Update of norm.cu.
type normTargets struct {
	mean, invstd, scale, shift driver.DevicePtr
	weight, bias               driver.DevicePtr
	runningMean, runningVar    driver.DevicePtr
	batches                    driver.DevicePtr
	eps, momentum              float64
	kind, _                    int32
}

// targets are outputs at and at+1, the running statistics, and what the batch is normalised with.
func (b *binder) targets(a op.BatchNormAttr, at int) (normTargets, affine) {
	f := b.newAffine(b.out(at))
	return normTargets{
		f.mean, b.out(at + 1), f.scale, f.shift, b.in(1), b.in(2), b.state(3), b.state(4), b.state(5), a.Eps, a.Momentum, typeOf(b.s.In, 3), 0,
	}, f
}

// moments sums up the shares of the batch, in scratch.
func (b *binder) moments() (part driver.DevicePtr, v images) {
	x := b.s.In[0].Spec
	v = b.images(x.Shape)
	part = b.scratch(8 * 3 * v.c * v.shares)
	if v.fours {
		b.launch(x.DType, "bn_moments_last", v.blocks(), v.shares, b.in(0), v.n, v.c, v.lanes, part)
	} else {
		b.launch(x.DType, "bn_moments", v.blocks(), v.shares, b.in(0), v.n, v.c, v.hw, v.lanes, part)
	}
	return part, v
}

// normApply normalises, adds the residual if there is one, and clips if relu is 1.
func (b *binder) normApply(f affine, residual driver.DevicePtr, relu int) {
	x := b.s.In[0].Spec
	v := b.images(x.Shape)
	if v.fours {
		b.launch(x.DType, "bn_apply_last", v.blocks(), v.spread, b.in(0), f.mean, f.scale, f.shift, v.n, v.c, v.lanes, residual, relu, b.out(0))
		return
	}
	b.elementwise(x.DType, "bn_apply", x.Shape.Elems(), b.in(0), f.mean, f.scale, f.shift, v.c, v.hw, residual, relu, b.out(0))
}

func bindBatchNormGrad(b *binder) { b.normGrad(0, b.in(1), b.in(2), b.in(3), 4) }

// normGrad is the gradient for x, input 0, from dy, of which only what is
// positive in gate counts; the weight is input weight.
func (b *binder) normGrad(gate, dy, mean, invstd driver.DevicePtr, weight int) {
	x := b.s.In[0].Spec
	v := b.images(x.Shape)
	part, open := b.scratch(8*2*v.c*v.shares), driver.DevicePtr(0)
	if b.s.Op == op.NormReLUGrad {
		open = b.scratch(x.Shape.Elems())
	}
	b.gradSums(v, b.in(0), gate, dy, mean, part, open)
	if !b.s.Out[0].Present() {
		b.mergeGrad(part, v, invstd, weight, 0, 0)
		return
	}
	b.normGradInput(v, open, dy, mean, b.slopes(part, v, invstd, weight))
}

// gradSums sums up the shares of Σdy and Σdy·(x−mean) in part.
func (b *binder) gradSums(v images, x, gate, dy, mean, part, open driver.DevicePtr) {
	d := b.s.In[0].Spec.DType
	if v.fours {
		b.launch(d, "bn_grad_sums_last", v.blocks(), v.shares, x, gate, dy, mean, v.n, v.c, v.lanes, part, open)
		return
	}
	b.launch(d, "bn_grad_sums", v.blocks(), v.shares, x, gate, dy, mean, v.n, v.c, v.hw, v.lanes, part, open)
}

// slopes makes what the input's gradient is computed with, of the ranks' sums if they share theirs.
func (b *binder) slopes(part driver.DevicePtr, v images, invstd driver.DevicePtr, weight int) driver.DevicePtr {
	slopes := b.scratch(8 * 3 * v.c)
	if b.s.Op != op.SyncBatchNormGrad {
		b.mergeGrad(part, v, invstd, weight, slopes, 0)
		return slopes
	}
	sums := b.scratch(8 * (2*v.c + 1))
	b.mergeGrad(part, v, invstd, weight, 0, sums)
	b.exchange(sums, func(e plan.Exchange, v []float64) error { return e.Sum(v) })
	b.launch(b.s.In[0].Spec.DType, "bn_slopes", grid(v.c), 1, sums, invstd, b.in(weight), typeOf(b.s.In, weight), v.c, slopes)
	return slopes
}

func (b *binder) normGradInput(v images, open, dy, mean, slopes driver.DevicePtr) {
	x := b.s.In[0].Spec
	if v.fours {
		b.launch(x.DType, "bn_grad_input_last", v.blocks(), v.spread, b.in(0), open, dy, mean, slopes, v.n, v.c, v.lanes, b.out(0), b.out(3))
		return
	}
	b.elementwise(x.DType, "bn_grad_input", x.Shape.Elems(), b.in(0), open, dy, mean, slopes, v.c, v.hw, b.out(0), b.out(3))
}

// mergeGrad adds up the shares' sums, and writes the gradients of weight and
// bias, and slopes or sums.
func (b *binder) mergeGrad(part driver.DevicePtr, v images, invstd driver.DevicePtr, weight int, slopes, sums driver.DevicePtr) {
	b.launch(b.s.In[0].Spec.DType, "bn_grad_merge", v.c, 1, part, v.shares, v.c, float64(v.n*v.hw), invstd, b.out(1), b.out(2), b.gradType(), b.adds(1), b.adds(2),
		b.in(weight), typeOf(b.s.In, weight), slopes, sums)
}

// gradType is the type of a norm's gradients, outputs 1 and 2.
func (b *binder) gradType() int32 {
	if b.s.Out[1].Present() {
		return typeOf(b.s.Out, 1)
	}
	return typeOf(b.s.Out, 2)
}
