package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.NormPool, implementation{f32: bindNormPool[float32], f64: bindNormPool[float64], bf16: nativeNormPool, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, ^0, ^1, ^2, ^3}, moved: []int{3, 4}}, scratch: normPoolScratch})
	implement(op.NormPoolGrad, implementation{f32: bindNormPoolGrad[float32], f64: bindNormPoolGrad[float64], bf16: nativeNormPool, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, 5, 6, ^0, ^1, ^2, ^3}}})
}

func normPoolScratch(s *plan.Step, _ int) int {
	x := s.In[0].Spec.Shape
	return x[1] + norm.BatchNormReLUPoolScratch(&pool.Shape{H: x[2], W: x[3]})
}

// bindNormPool is batch norm, ReLU and max pooling in one pass after the statistics.
func bindNormPool[T kernel.Float](b *binder[T]) job {
	a, p := b.s.Attr.(op.NormPoolAttr), poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, weight, bias, scratch := b.in(0), b.in(1), b.in(2), b.scratches()
	y, _ := b.out(0)
	at := index[int32](b.m, &b.s.Out[1])
	mean, invstd, stats := normStats(b, a.Norm, x, 2, scratch[0])
	in, out, parts := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), b.poolParts(p)
	apply := b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPool(&parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:], scratch[part][p.C:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// normStats finds what a batch norm normalises with: the batch's statistics, which it
// writes to outputs first and first+1, or the running ones, with 1/σ in scratch.
func normStats[T kernel.Float](b *binder[T], a op.BatchNormAttr, x func(*plan.Call) []T, first int, scratch []T) (mean func(*plan.Call) []T, invstd []T, stats job) {
	if !b.s.Train {
		invstd = scratch[:b.s.In[0].Spec.Shape[1]]
		return b.in(3), invstd, invertStats(b.in(4), invstd, a.Eps)
	}
	m, _ := b.out(first)
	invstd, _ = b.out(first + 1)
	return always(m), invstd, bindStats(b, a, x, m, invstd)
}

// invertStats makes 1/σ from the running variance.
func invertStats[T kernel.Float](variance func(*plan.Call) []T, invstd []T, eps float64) job {
	return func(c *plan.Call) { invert(variance(c), invstd, eps) }
}

// poolParts are the geometries of each thread's share of the images.
func (b *binder[T]) poolParts(p pool.Shape) []pool.Shape {
	return shares(b, p, func(p *pool.Shape) *int { return &p.N })
}

func bindNormPoolGrad[T kernel.Float](b *binder[T]) job {
	p := poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, y, dy, at := b.in(0), b.in(1), b.in(2), index[int32](b.m, &b.s.In[3])
	mean, invstd, weight := b.in(4), b.in(5), b.in(6)
	dx, dw, db, add := b.normOut()
	sums, _ := b.out(3)
	return b.split(p.C, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormReLUPoolGradOf(lo, hi, &p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c))
	})
}

// nativeNormPool takes steps whose images are all bfloat16.
func nativeNormPool(s *plan.Step) native {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	if !norm.FastPoolBF16(&p) || !isBF16(s.Out[0]) {
		return native{}
	}
	if s.Op == op.NormPool {
		n := native{bind: bindNormPoolBF16, direct: []int{0, ^0}}
		if !s.Train {
			n.scratch = p.C
		}
		return n
	}
	if isBF16(s.In[1]) && isBF16(s.In[2]) {
		return native{bind: bindNormPoolGradBF16, direct: []int{0, 1, 2, ^0}}
	}
	return native{}
}

func bindNormPoolBF16(b *binder[float32]) job {
	a, p := b.s.Attr.(op.NormPoolAttr), poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, weight, bias, y, at := b.half(0), b.in(1), b.in(2), b.halfOut(0), index[int32](b.m, &b.s.Out[1])
	in, out, parts := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), b.poolParts(p)
	mean, invstd, stats := normStatsBF16(b, a.Norm, x, 2)
	apply := b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPoolBF16(&parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

func bindNormPoolGradBF16(b *binder[float32]) job {
	p := poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, y, dy, at := b.half(0), b.half(1), b.half(2), index[int32](b.m, &b.s.In[3])
	mean, invstd, weight := b.in(4), b.in(5), b.in(6)
	dx, dw, db, add := normOutBF16(b)
	sums, _ := b.out(3)
	return b.split(p.C, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormReLUPoolGradBF16Of(lo, hi, &p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c))
	})
}
