package cpu

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.BatchNorm, implementation{f32: bindBatchNorm[float32], f64: bindBatchNorm[float64], bf16: nativeNorm, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2}, moved: []int{3, 4}}, scratch: runningScratch})
	implement(op.BatchNormGrad, implementation{f32: bindBatchNormGrad[float32], f64: bindBatchNormGrad[float64], bf16: nativeNorm, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2}}, scratch: unwantedGrad})
}

// runningScratch is room for 1/σ of the running statistics, in evaluation.
func runningScratch(s *plan.Step, _ int) int {
	if s.Train {
		return 0
	}
	return s.In[3].Spec.Shape[0]
}

// unwantedGrad is memory for an input gradient that is not needed.
func unwantedGrad(s *plan.Step, _ int) int {
	if s.Out[0].Present() {
		return 0
	}
	return s.In[0].Spec.Shape.Elems()
}

// planes are the sizes of a batch [n, c, ...] as norms take it: n·c planes of hw elements.
func planes(s tensor.Shape) (n, c, hw int) { return s[0], s[1], s[2:].Elems() }

func bindBatchNorm[T kernel.Float](b *binder[T]) job {
	if !b.s.Train {
		return bindBatchNormEval(b)
	}
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, weight, bias := b.in(0), b.in(1), b.in(2)
	y, _ := b.out(0)
	mean, _ := b.out(1)
	invstd, _ := b.out(2)
	stats := bindStats(b, b.s.Attr.(op.BatchNormAttr), x, mean, invstd)
	apply := b.split(n, 1, func(c *plan.Call, _, lo, hi int) {
		at := lo * ch * hw
		norm.BatchNormApply(hi-lo, ch, hw, x(c)[at:], mean, invstd, weight(c), bias(c), y[at:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// bindStats computes the batch's mean and 1/σ, and moves the running statistics.
func bindStats[T kernel.Float](b *binder[T], a op.BatchNormAttr, x func(*plan.Call) []T, mean, invstd []T) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	return b.stats(a, mean, invstd, func(c *plan.Call, lo, hi int) {
		norm.BatchNormStatsOf(lo, hi, n, ch, hw, x(c), mean, invstd)
	})
}

// stats shares the channels among threads; measure writes their means and variances.
func (b *binder[T]) stats(a op.BatchNormAttr, mean, invstd []T, measure func(c *plan.Call, lo, hi int)) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	running := runningStats[T]{mean: b.state(3), variance: b.state(4), batches: index[int64](b.m, &b.s.In[5]), momentum: a.Momentum, count: float64(n * hw), again: b.m.again}
	all := b.split(ch, 1, func(c *plan.Call, _, lo, hi int) { measure(c, lo, hi) })
	return func(c *plan.Call) {
		all(c)
		running.update(mean, invstd)
		invert(invstd, invstd, a.Eps)
	}
}

// runningStats are what evaluation will normalise with.
type runningStats[T kernel.Float] struct {
	mean, variance []T
	batches        []int64
	momentum       float64
	count          float64 // elements per channel and batch
	again          *bool   // of the same batch, other channels were here before; nil: never
}

// update moves the statistics towards the batch's, with the variance of the
// sample where normalisation uses that of the batch (torch/nn/modules/batchnorm.py).
//
// One element has no sample variance, which is 0/0, so the running one stays.
// Ranks that share statistics come to that when all but one have run out of
// data; PyTorch's SyncBatchNorm then writes NaN, and its BatchNorm refuses such
// a batch. No element at all changes nothing.
func (r *runningStats[T]) update(mean, variance []T) {
	if r.count < 1 {
		return
	}
	m := r.momentum
	for i := range mean {
		r.mean[i] = T(m*float64(mean[i]) + (1-m)*float64(r.mean[i]))
	}
	if r.count > 1 {
		unbias := r.count / (r.count - 1)
		for i := range variance {
			r.variance[i] = T(m*float64(variance[i])*unbias + (1-m)*float64(r.variance[i]))
		}
	}
	if r.again == nil || !*r.again {
		r.batches[0]++
	}
}

// invert computes 1/√(variance + eps); dst may be variance.
func invert[T kernel.Float](variance, dst []T, eps float64) {
	for i, v := range variance {
		dst[i] = T(1 / math.Sqrt(float64(v)+eps))
	}
}

func bindBatchNormEval[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	a := b.s.Attr.(op.BatchNormAttr)
	x, weight, bias, mean, variance, invstd := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), b.scratch()
	y, _ := b.out(0)
	return func(c *plan.Call) {
		invert(variance(c), invstd, a.Eps)
		norm.BatchNormApply(n, ch, hw, x(c), mean(c), invstd, weight(c), bias(c), y)
	}
}

func bindBatchNormGrad[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, dy, mean, invstd, weight := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)
	dx, dw, db, add := b.normOut()
	return b.split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormGradOf(lo, hi, n, ch, hw, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	})
}

// normOut are the three outputs of a norm's gradient. The kernels need memory for dx
// even if it is not needed.
func (b *binder[T]) normOut() (dx, dw, db []T, add func(*plan.Call) bool) {
	dx, _ = b.out(0)
	if dx == nil {
		dx = b.scratch()
	}
	dw, add = b.out(1)
	db, addBias := b.out(2)
	if dw == nil {
		add = addBias
	}
	return dx, dw, db, add
}
