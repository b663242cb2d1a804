package ops

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.BatchNorm, bind.Implementation{F32: bindBatchNorm[float32], F64: bindBatchNorm[float64], BF16: nativeNorm, Half: halfNorm, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2}, Moved: []int{3, 4}}, Scratch: runningScratch})
	bind.Implement(op.BatchNormGrad, bind.Implementation{F32: bindBatchNormGrad[float32], F64: bindBatchNormGrad[float64], BF16: nativeNorm, Half: halfNorm, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2}}, Scratch: unwantedGrad})
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

func bindBatchNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	if !b.Step.Train {
		return bindBatchNormEval(b)
	}
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, weight, bias := b.In(0), b.In(1), b.In(2)
	y, _ := b.Out(0)
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	stats := bindStats(b, b.Step.Attr.(op.BatchNormAttr), x, mean, invstd)
	apply := b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		at := lo * ch * hw
		norm.BatchNormApply(hi-lo, ch, hw, x(c)[at:], mean, invstd, weight(c), bias(c), y[at:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// bindStats computes the batch's mean and 1/σ, and moves the running statistics.
func bindStats[T kernel.Float](b *bind.Binder[T], a op.BatchNormAttr, x func(*plan.Call) []T, mean, invstd []T) bind.Job {
	_, ch, hw := planes(b.Step.In[0].Spec.Shape)
	return shareStats(b, a, mean, invstd, func(c *plan.Call, first, end, lo, hi int, mean, variance []T) {
		norm.BatchNormStatsOf(lo, hi, end-first, ch, hw, x(c)[first*ch*hw:], mean, variance)
	})
}

// shareStats is bindStats of what a function measures.
func shareStats[T kernel.Float](b *bind.Binder[T], a op.BatchNormAttr, mean, invstd []T, of measure[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	running := runningStats[T]{mean: b.State(3), variance: b.State(4), batches: bind.Index[int64](b.Memory, &b.Step.In[5]), momentum: a.Momentum, count: float64(n * hw), again: b.Memory.Again}
	all := shareMoments(b, n, ch, hw, mean, invstd, of)
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

func bindBatchNormEval[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	a := b.Step.Attr.(op.BatchNormAttr)
	x, weight, bias, mean, variance, invstd := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.Scratch()
	y, _ := b.Out(0)
	return func(c *plan.Call) {
		invert(variance(c), invstd, a.Eps)
		norm.BatchNormApply(n, ch, hw, x(c), mean(c), invstd, weight(c), bias(c), y)
	}
}

func bindBatchNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4)
	dx, dw, db, add := normOut(b)
	return b.Split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormGradOf(lo, hi, n, ch, hw, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	})
}

// normOut are the three outputs of a norm's gradient. The kernels need memory for dx
// even if it is not needed.
func normOut[T kernel.Float](b *bind.Binder[T]) (dx, dw, db []T, add func(*plan.Call) bool) {
	dx, _ = b.Out(0)
	if dx == nil {
		dx = b.Scratch()
	}
	dw, add = b.Out(1)
	db, addBias := b.Out(2)
	if dw == nil {
		add = addBias
	}
	return dx, dw, db, add
}

// nativeNorm takes batch norms whose images are all bfloat16, of an even number of pixels.
func nativeNorm(s *plan.Step) bind.Native {
	_, c, hw := planes(s.In[0].Spec.Shape)
	if hw%2 > 0 || !bind.IsBF16(s.Out[0]) {
		return bind.Native{}
	}
	switch s.Op {
	case op.BatchNorm, op.NormReLU:
		n := bind.Native{Bind: bindNormBF16, Direct: []int{0, 6, ^0}}
		if len(s.In) > 6 && s.In[6].Present() && !bind.IsBF16(s.In[6]) {
			return bind.Native{}
		}
		if !s.Train {
			n.Scratch = c
		}
		return n
	case op.BatchNormAgain, op.NormReLUAgain:
		if len(s.In) > 5 && s.In[5].Present() && !bind.IsBF16(s.In[5]) {
			return bind.Native{}
		}
		return bind.Native{Bind: bindNormAgainBF16, Direct: []int{0, 5, ^0}}
	case op.BatchNormGrad:
		if bind.IsBF16(s.In[1]) {
			return bind.Native{Bind: bindNormGradBF16, Direct: []int{0, 1, ^0}}
		}
	case op.NormReLUGrad:
		if bind.IsBF16(s.In[1]) && bind.IsBF16(s.In[2]) && (len(s.Out) < 4 || !s.Out[3].Present() || bind.IsBF16(s.Out[3])) {
			return bind.Native{Bind: bindNormGradBF16, Direct: []int{0, 1, 2, ^0, ^3}}
		}
	}
	return bind.Native{}
}

func bindNormBF16(b *bind.Binder[float32]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, weight, bias, residual, y := b.Half(0), b.In(1), b.In(2), b.OptionalHalf(6), b.HalfOut(0)
	relu, image := b.Step.Op == op.NormReLU, ch*hw
	mean, invstd, stats := normStatsBF16(b, b.Step.Attr.(op.BatchNormAttr), x, 1)
	apply := b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		r := residual(c)
		if r != nil {
			r = r[lo*image:]
		}
		norm.BatchNormApplyBF16(hi-lo, ch, hw, x(c)[lo*image:], mean(c), invstd, weight(c), bias(c), r, relu, y[lo*image:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

func bindNormAgainBF16(b *bind.Binder[float32]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, weight, bias, mean, invstd, residual, y := b.Half(0), b.In(1), b.In(2), b.In(3), b.In(4), b.OptionalHalf(5), b.HalfOut(0)
	relu, image := b.Step.Op == op.NormReLUAgain, ch*hw
	return b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		r := residual(c)
		if r != nil {
			r = r[lo*image:]
		}
		norm.BatchNormApplyBF16(hi-lo, ch, hw, x(c)[lo*image:], mean(c), invstd(c), weight(c), bias(c), r, relu, y[lo*image:])
	})
}

// normStatsBF16 finds what a batch norm of bfloat16 images normalises with: the
// batch's statistics, which it writes to outputs first and first+1, or the running ones.
func normStatsBF16(b *bind.Binder[float32], a op.BatchNormAttr, x func(*plan.Call) []uint16, first int) (mean func(*plan.Call) []float32, invstd []float32, stats bind.Job) {
	_, ch, hw := planes(b.Step.In[0].Spec.Shape)
	if !b.Step.Train {
		invstd = b.Scratch()
		return b.In(3), invstd, invertStats(b.In(4), invstd, a.Eps)
	}
	m, _ := b.Out(first)
	invstd, _ = b.Out(first + 1)
	return bind.Always(m), invstd, shareStats(b, a, m, invstd, func(c *plan.Call, first, end, lo, hi int, mean, variance []float32) {
		norm.BatchNormStatsBF16Of(lo, hi, end-first, ch, hw, x(c)[first*ch*hw:], mean, variance)
	})
}

// bindNormGradBF16 binds both gradients: without a ReLU there is no y, and dy comes before.
func bindNormGradBF16(b *bind.Binder[float32]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, y, at := b.Half(0), b.OptionalHalf(-1), 1
	if b.Step.Op == op.NormReLUGrad {
		y, at = b.Half(1), 2
	}
	dy, mean, invstd, weight := b.Half(at), b.In(at+1), b.In(at+2), b.In(at+3)
	dx, dw, db, add := normOutBF16(b)
	var d []uint16
	if len(b.Step.Out) > 3 && b.Step.Out[3].Present() {
		d = b.HalfOut(3)
	}
	return b.Split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormGradBF16Of(lo, hi, n, ch, hw, x(c), y(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, d, add(c))
	})
}

// normOutBF16 is normOut where the images are bfloat16.
func normOutBF16(b *bind.Binder[float32]) (dx []uint16, dw, db []float32, add func(*plan.Call) bool) {
	dw, add = b.Out(1)
	db, addBias := b.Out(2)
	if dw == nil {
		add = addBias
	}
	return b.HalfOut(0), dw, db, add
}
