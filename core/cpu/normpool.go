package cpu

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
)

// bindNormPool is batch norm, ReLU and max pooling in one pass after the statistics.
func bindNormPool[T kernel.Float](b *binder[T]) job {
	a, p := b.s.Attr.(plan.NormPool), poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, weight, bias, scratch := b.in(0), b.in(1), b.in(2), b.scratch()
	y, _ := b.out(0)
	at := index[int32](b.m, &b.s.Out[1])
	if !b.s.Train {
		mean, variance, invstd := b.in(3), b.in(4), scratch[:p.C]
		return func(c *plan.Call) {
			invert(variance(c), invstd, a.Norm.Eps)
			kernel.BatchNormReLUPool(&p, x(c), mean(c), invstd, weight(c), bias(c), y, at, scratch[p.C:])
		}
	}
	mean, _ := b.out(2)
	invstd, _ := b.out(3)
	stats := bindStats(b, a.Norm, x, mean, invstd)
	return func(c *plan.Call) {
		stats(c)
		kernel.BatchNormReLUPool(&p, x(c), mean, invstd, weight(c), bias(c), y, at, scratch[p.C:])
	}
}

func bindNormPoolGrad[T kernel.Float](b *binder[T]) job {
	p := poolGeometry(b.s, b.s.In[0].Spec.Shape)
	x, y, dy, at := b.in(0), b.in(1), b.in(2), index[int32](b.m, &b.s.In[3])
	mean, invstd, weight := b.in(4), b.in(5), b.in(6)
	dx, dw, db, add := b.normOut()
	sums, _ := b.out(3)
	return func(c *plan.Call) {
		kernel.BatchNormReLUPoolGrad(&p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c))
	}
}
