package cpu

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.NormReLU, implementation{f32: bindNormReLU[float32], f64: bindNormReLU[float64], bf16: nativeNorm, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, 6, ^0, ^1, ^2}, moved: []int{3, 4}}, scratch: runningScratch})
	implement(op.NormReLUGrad, implementation{f32: bindNormReLUGrad[float32], f64: bindNormReLUGrad[float64], bf16: nativeNorm, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, 5, ^0, ^1, ^2, ^3}}})
	for _, again := range []graph.Op{op.BatchNormAgain, op.NormReLUAgain} {
		implement(again, implementation{f32: bindNormAgain[float32], f64: bindNormAgain[float64], bf16: nativeNorm, blocks: cuts{along: channels, of: []int{0, 1, 2, 3, 4, 5, ^0}}})
	}
}

// bindNormReLU is batch norm, the addition of a residual if there is one, and
// ReLU in one pass after the statistics.
func bindNormReLU[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	a := b.s.Attr.(op.BatchNormAttr)
	x, weight, bias, residual := b.in(0), b.in(1), b.in(2), b.in(6)
	y, _ := b.out(0)
	mean, invstd, stats := normStats(b, a, x, 1, b.scratch())
	apply := b.split(n, 1, func(c *plan.Call, _, lo, hi int) {
		r := residual(c)
		if r != nil {
			r = r[lo*ch*hw:]
		}
		norm.BatchNormReLU(hi-lo, ch, hw, x(c)[lo*ch*hw:], mean(c), invstd, weight(c), bias(c), r, y[lo*ch*hw:])
	})
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// bindNormAgain is what a batch norm does after the statistics, with a ReLU or without.
func bindNormAgain[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	image, relu := ch*hw, b.s.Op == op.NormReLUAgain
	x, weight, bias, mean, invstd, residual := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), b.in(5)
	y, _ := b.out(0)
	return b.split(n, 1, func(c *plan.Call, _, lo, hi int) {
		x, y, r := x(c)[lo*image:], y[lo*image:], residual(c)
		if r != nil {
			r = r[lo*image:]
		}
		if relu {
			norm.BatchNormReLU(hi-lo, ch, hw, x, mean(c), invstd(c), weight(c), bias(c), r, y)
		} else {
			norm.BatchNormApply(hi-lo, ch, hw, x, mean(c), invstd(c), weight(c), bias(c), y)
		}
	})
}

func bindNormReLUGrad[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, y, dy, mean, invstd, weight := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), b.in(5)
	dx, dw, db, add := b.normOut()
	d, _ := b.out(3)
	return b.split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormReLUGradOf(lo, hi, n, ch, hw, x(c), y(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, d, add(c))
	})
}
