package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

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
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	if !b.Step.Train {
		invstd = b.Scratch()
		return b.In(3), invstd, invertStats(b.In(4), invstd, a.Eps)
	}
	m, _ := b.Out(first)
	invstd, _ = b.Out(first + 1)
	return bind.Always(m), invstd, shareStats(b, a, m, invstd, func(c *plan.Call, lo, hi int) {
		norm.BatchNormStatsBF16Of(lo, hi, n, ch, hw, x(c), m, invstd)
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
