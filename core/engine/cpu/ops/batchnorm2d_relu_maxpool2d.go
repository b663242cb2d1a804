package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.NormPool, bind.Implementation{F32: bindNormPool[float32], F64: bindNormPool[float64], BF16: nativeNormPool, Half: halfNormPool, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2, ^3}, Moved: []int{3, 4}}, Scratch: normPoolScratch})
	bind.Implement(op.NormPoolGrad, bind.Implementation{F32: bindNormPoolGrad[float32], F64: bindNormPoolGrad[float64], BF16: nativeNormPool, Half: halfNormPool, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, 5, 6, 7, ^0, ^1, ^2, ^3}}})
}

func normPoolScratch(s *plan.Step, _ int) int {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	return p.C + norm.BatchNormReLUPoolScratch(&p)
}

// bindNormPool is batch norm, ReLU and max pooling in one pass after the statistics.
func bindNormPool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a, p := b.Step.Attr.(op.NormPoolAttr), poolGeometry(b.Step, b.Step.In[0].Spec.Shape)
	x, weight, bias, scratch := b.In(0), b.In(1), b.In(2), b.Scratches()
	y, _ := b.Out(0)
	at := bind.Index[int32](b.Memory, &b.Step.Out[1])
	mean, invstd, stats := normStats(b, a.Norm, x, 2, scratch[0])
	in, out, parts := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p)
	apply := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPool(&parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:], scratch[part][p.C:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// normStats finds what a batch norm normalises with: the batch's statistics, which it
// writes to outputs first and first+1, or the running ones, with 1/σ in scratch.
func normStats[T kernel.Float](b *bind.Binder[T], a op.BatchNormAttr, x func(*plan.Call) []T, first int, scratch []T) (mean func(*plan.Call) []T, invstd []T, stats bind.Job) {
	if !b.Step.Train {
		invstd = scratch[:b.Step.In[0].Spec.Shape[1]]
		return b.In(3), invstd, invertStats(b.In(4), invstd, a.Eps)
	}
	m, _ := b.Out(first)
	invstd, _ = b.Out(first + 1)
	return bind.Always(m), invstd, bindStats(b, a, x, m, invstd)
}

// invertStats makes 1/σ from the running variance.
func invertStats[T kernel.Float](variance func(*plan.Call) []T, invstd []T, eps float64) bind.Job {
	return func(c *plan.Call) { invert(variance(c), invstd, eps) }
}

// poolParts are the geometries of each thread's share of the images.
func poolParts[T kernel.Float](b *bind.Binder[T], p pool.Shape) []pool.Shape {
	return bind.Shares(b, p, func(p *pool.Shape) *int { return &p.N })
}

func bindNormPoolGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p := poolGeometry(b.Step, b.Step.In[0].Spec.Shape)
	if threads := b.Memory.Workers.Size(); threads > 1 && p.N >= threads {
		return shareNormPoolGrad(b, p)
	}
	x, y, dy, at := b.In(0), b.In(1), b.In(2), bind.Index[int32](b.Memory, &b.Step.In[3])
	mean, invstd, weight, bias := b.In(4), b.In(5), b.In(6), b.In(7)
	dx, dw, db, add := normOut(b)
	sums, _ := b.Out(3)
	rounded := b.Rounded(1)
	return b.Split(p.C, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormReLUPoolGradOf(lo, hi, &p, x(c), y(c), dy(c), rounded, at, mean(c), invstd(c), weight(c), bias(c), dx, dw, db, sums, add(c))
	})
}

// nativeNormPool takes steps whose images are all bfloat16.
func nativeNormPool(s *plan.Step) bind.Native {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	if !norm.FastPoolBF16(&p) || !bind.IsBF16(s.Out[0]) {
		return bind.Native{}
	}
	if s.Op == op.NormPool {
		n := bind.Native{Bind: bindNormPoolBF16, Direct: []int{0, ^0}}
		if !s.Train {
			n.Scratch = p.C
		}
		return n
	}
	if bind.IsBF16(s.In[1]) && bind.IsBF16(s.In[2]) {
		return bind.Native{Bind: bindNormPoolGradHalf, Direct: []int{0, 1, 2, ^0}}
	}
	return bind.Native{}
}

func bindNormPoolBF16(b *bind.Binder[float32]) bind.Job {
	a, p := b.Step.Attr.(op.NormPoolAttr), poolGeometry(b.Step, b.Step.In[0].Spec.Shape)
	x, weight, bias, y, at := b.Half(0), b.In(1), b.In(2), b.HalfOut(0), bind.Index[int32](b.Memory, &b.Step.Out[1])
	in, out, parts := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p)
	mean, invstd, stats := normStatsBF16(b, a.Norm, x, 2)
	apply := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPoolBF16(&parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// halfNormPool takes steps whose images are all of one half type.
func halfNormPool(s *plan.Step) bind.Native {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	n := bind.Native{Bind: bindNormPoolHalf, Direct: []int{0, ^0}, Scratch: p.C + norm.HalfNormPoolScratch(&p)}
	if s.Op == op.NormPoolGrad {
		n.Bind, n.Direct = bindNormPoolGradHalf, []int{0, 1, 2, ^0}
	}
	if !norm.TakesHalfNormPool(&p) || !oneType(s, n.Direct) {
		return bind.Native{}
	}
	return n
}

func bindNormPoolHalf(b *bind.Binder[float32]) bind.Job {
	a, p, d := b.Step.Attr.(op.NormPoolAttr), poolGeometry(b.Step, b.Step.In[0].Spec.Shape), b.Step.In[0].Spec.DType
	x, weight, bias, y, at := b.Half(0), b.In(1), b.In(2), b.HalfOut(0), bind.Index[int32](b.Memory, &b.Step.Out[1])
	in, out, parts, scratch := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p), b.Scratches()
	mean, invstd, stats := normStatsHalf(b, a.Norm, x, 2, scratch[0])
	apply := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPoolHalf(d, &parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:], scratch[part][p.C:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

func bindNormPoolGradHalf(b *bind.Binder[float32]) bind.Job {
	p, d := poolGeometry(b.Step, b.Step.In[0].Spec.Shape), b.Step.In[0].Spec.DType
	x, y, dy, at := b.Half(0), b.Half(1), b.Half(2), bind.Index[int32](b.Memory, &b.Step.In[3])
	mean, invstd, weight, scratch := b.In(4), b.In(5), b.In(6), b.Scratches()
	dx, dw, db, add := normOutBF16(b)
	sums, _ := b.Out(3)
	native := d == tensor.BF16 && norm.FastPoolBF16(&p)
	return b.Split(p.C, 1, func(c *plan.Call, part, lo, hi int) {
		if native {
			norm.BatchNormReLUPoolGradBF16Of(lo, hi, &p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c))
			return
		}
		norm.BatchNormReLUPoolGradHalfOf(d, lo, hi, &p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c), scratch[part])
	})
}
