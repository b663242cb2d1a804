package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// nativeNorm takes batch norms whose images are all bfloat16, of an even number of pixels.
func nativeNorm(s *plan.Step) native {
	_, c, hw := planes(s.In[0].Spec.Shape)
	if hw%2 > 0 || !isBF16(s.Out[0]) {
		return native{}
	}
	switch s.Op {
	case op.BatchNorm, op.NormReLU:
		n := native{bind: bindNormBF16, direct: []int{0, 6, ^0}}
		if len(s.In) > 6 && s.In[6].Present() && !isBF16(s.In[6]) {
			return native{}
		}
		if !s.Train {
			n.scratch = c
		}
		return n
	case op.BatchNormAgain, op.NormReLUAgain:
		if len(s.In) > 5 && s.In[5].Present() && !isBF16(s.In[5]) {
			return native{}
		}
		return native{bind: bindNormAgainBF16, direct: []int{0, 5, ^0}}
	case op.BatchNormGrad:
		if isBF16(s.In[1]) {
			return native{bind: bindNormGradBF16, direct: []int{0, 1, ^0}}
		}
	case op.NormReLUGrad:
		if isBF16(s.In[1]) && isBF16(s.In[2]) && (len(s.Out) < 4 || !s.Out[3].Present() || isBF16(s.Out[3])) {
			return native{bind: bindNormGradBF16, direct: []int{0, 1, 2, ^0, ^3}}
		}
	}
	return native{}
}

func bindNormBF16(b *binder[float32]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, weight, bias, residual, y := b.half(0), b.in(1), b.in(2), b.optionalHalf(6), b.halfOut(0)
	relu, image := b.s.Op == op.NormReLU, ch*hw
	mean, invstd, stats := normStatsBF16(b, b.s.Attr.(op.BatchNormAttr), x, 1)
	apply := b.split(n, 1, func(c *plan.Call, _, lo, hi int) {
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

func bindNormAgainBF16(b *binder[float32]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, weight, bias, mean, invstd, residual, y := b.half(0), b.in(1), b.in(2), b.in(3), b.in(4), b.optionalHalf(5), b.halfOut(0)
	relu, image := b.s.Op == op.NormReLUAgain, ch*hw
	return b.split(n, 1, func(c *plan.Call, _, lo, hi int) {
		r := residual(c)
		if r != nil {
			r = r[lo*image:]
		}
		norm.BatchNormApplyBF16(hi-lo, ch, hw, x(c)[lo*image:], mean(c), invstd(c), weight(c), bias(c), r, relu, y[lo*image:])
	})
}

// normStatsBF16 finds what a batch norm of bfloat16 images normalises with: the
// batch's statistics, which it writes to outputs first and first+1, or the running ones.
func normStatsBF16(b *binder[float32], a op.BatchNormAttr, x func(*plan.Call) []uint16, first int) (mean func(*plan.Call) []float32, invstd []float32, stats job) {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	if !b.s.Train {
		invstd = b.scratch()
		return b.in(3), invstd, invertStats(b.in(4), invstd, a.Eps)
	}
	m, _ := b.out(first)
	invstd, _ = b.out(first + 1)
	return always(m), invstd, b.stats(a, m, invstd, func(c *plan.Call, lo, hi int) {
		norm.BatchNormStatsBF16Of(lo, hi, n, ch, hw, x(c), m, invstd)
	})
}

// bindNormGradBF16 binds both gradients: without a ReLU there is no y, and dy comes before.
func bindNormGradBF16(b *binder[float32]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, y, at := b.half(0), b.optionalHalf(-1), 1
	if b.s.Op == op.NormReLUGrad {
		y, at = b.half(1), 2
	}
	dy, mean, invstd, weight := b.half(at), b.in(at+1), b.in(at+2), b.in(at+3)
	dx, dw, db, add := normOutBF16(b)
	var d []uint16
	if len(b.s.Out) > 3 && b.s.Out[3].Present() {
		d = b.halfOut(3)
	}
	return b.split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormGradBF16Of(lo, hi, n, ch, hw, x(c), y(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, d, add(c))
	})
}

// normOutBF16 is normOut where the images are bfloat16.
func normOutBF16(b *binder[float32]) (dx []uint16, dw, db []float32, add func(*plan.Call) bool) {
	dw, add = b.out(1)
	db, addBias := b.out(2)
	if dw == nil {
		add = addBias
	}
	return b.halfOut(0), dw, db, add
}
