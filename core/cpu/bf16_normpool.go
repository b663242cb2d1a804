package cpu

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/op"
	"github.com/trainctl/trainctl/core/plan"
)

// nativeNormPool takes steps whose images are all bfloat16.
func nativeNormPool(s *plan.Step) native {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	if !p.NormPoolBF16() || !isBF16(s.Out[0]) {
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
		kernel.BatchNormReLUPoolBF16(&parts[part], x(c)[lo*in:], mean(c), invstd, weight(c), bias(c), y[lo*out:], at[lo*out:])
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
		kernel.BatchNormReLUPoolGradBF16Of(lo, hi, &p, x(c), y(c), dy(c), at, mean(c), invstd(c), weight(c), dx, dw, db, sums, add(c))
	})
}
