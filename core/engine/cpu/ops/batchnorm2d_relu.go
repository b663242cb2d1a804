package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.NormReLU, bind.Implementation{F32: bindNormReLU[float32], F64: bindNormReLU[float64], BF16: nativeNorm, Half: halfNorm, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, 6, ^0, ^1, ^2}, Moved: []int{3, 4}}, Scratch: runningScratch})
	bind.Implement(op.NormReLUGrad, bind.Implementation{F32: bindNormReLUGrad[float32], F64: bindNormReLUGrad[float64], BF16: nativeNorm, Half: halfNorm, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, 5, ^0, ^1, ^2, ^3}}})
	for _, again := range []graph.Op{op.BatchNormAgain, op.NormReLUAgain} {
		bind.Implement(again, bind.Implementation{F32: bindNormAgain[float32], F64: bindNormAgain[float64], BF16: nativeNorm, Half: halfNorm, Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, 1, 2, 3, 4, 5, ^0}}})
	}
}

// bindNormReLU is batch norm, the addition of a residual if there is one, and
// ReLU in one pass after the statistics.
func bindNormReLU[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	a := b.Step.Attr.(op.BatchNormAttr)
	x, weight, bias, residual := b.In(0), b.In(1), b.In(2), b.In(6)
	y, _ := b.Out(0)
	mean, invstd, stats := normStats(b, a, x, 1, b.Scratch())
	apply := b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
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
func bindNormAgain[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	image, relu := ch*hw, b.Step.Op == op.NormReLUAgain
	x, weight, bias, mean, invstd, residual := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.In(5)
	y, _ := b.Out(0)
	return b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
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

func bindNormReLUGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, y, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4), b.In(5)
	dx, dw, db, add := normOut(b)
	d, _ := b.Out(3)
	return b.Split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormReLUGradOf(lo, hi, n, ch, hw, x(c), y(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, d, add(c))
	})
}
