package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// halfNorm takes batch norms whose images are all of one half type, if their planes have kernels.
func halfNorm(s *plan.Step) bind.Native {
	n := bind.Native{Direct: []int{0, ^0}}
	switch s.Op {
	case op.BatchNorm, op.NormReLU:
		n.Bind, n.Direct = bindHalfNorm, append(n.Direct, 6)
		if !s.Train {
			n.Scratch = s.In[3].Spec.Shape[0]
		}
	case op.BatchNormAgain, op.NormReLUAgain:
		n.Bind, n.Direct = bindHalfNormAgain, append(n.Direct, 5)
	case op.BatchNormGrad:
		n.Bind, n.Direct = bindHalfNormGrad, append(n.Direct, 1)
	case op.NormReLUGrad:
		n.Bind, n.Direct = bindHalfNormGrad, append(n.Direct, 1, 2, ^3)
	}
	_, _, hw := planes(s.In[0].Spec.Shape)
	if !norm.TakesHalf(hw) || !oneType(s, n.Direct) {
		return bind.Native{}
	}
	return n
}

// oneType reports whether those of the operands that are there have the type of the
// first, and the output is there.
func oneType(s *plan.Step, operands []int) bool {
	for _, i := range operands {
		list, at := s.In, i
		if i < 0 {
			list, at = s.Out, ^i
		}
		if at < len(list) && list[at].Present() && list[at].Spec.DType != s.In[0].Spec.DType {
			return false
		}
	}
	return s.Out[0].Present()
}

func bindHalfNorm(b *bind.Binder[float32]) bind.Job {
	var scratch []float32
	if !b.Step.Train {
		scratch = b.Scratch()
	}
	mean, invstd, stats := normStatsHalf(b, b.Step.Attr.(op.BatchNormAttr), b.Half(0), 1, scratch)
	apply := halfApply(b, b.Step.Op == op.NormReLU, mean, bind.Always(invstd), b.OptionalHalf(6))
	return func(c *plan.Call) {
		stats(c)
		apply(c)
	}
}

// normStatsHalf is normStats of images of a half type.
func normStatsHalf(b *bind.Binder[float32], a op.BatchNormAttr, x func(*plan.Call) []uint16, first int, scratch []float32) (mean func(*plan.Call) []float32, invstd []float32, stats bind.Job) {
	_, ch, hw := planes(b.Step.In[0].Spec.Shape)
	if !b.Step.Train {
		return b.In(3), scratch[:ch], invertStats(b.In(4), scratch[:ch], a.Eps)
	}
	d := b.Step.In[0].Spec.DType
	m, _ := b.Out(first)
	invstd, _ = b.Out(first + 1)
	return bind.Always(m), invstd, shareStats(b, a, m, invstd, func(c *plan.Call, first, end, lo, hi int, mean, variance []float32) {
		norm.BatchNormStatsHalfOf(d, lo, hi, end-first, ch, hw, x(c)[first*ch*hw:], mean, variance)
	})
}

func bindHalfNormAgain(b *bind.Binder[float32]) bind.Job {
	return halfApply(b, b.Step.Op == op.NormReLUAgain, b.In(3), b.In(4), b.OptionalHalf(5))
}

// halfApply is what a batch norm does after the statistics.
func halfApply(b *bind.Binder[float32], relu bool, mean, invstd func(*plan.Call) []float32, residual func(*plan.Call) []uint16) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, weight, bias, y, d := b.Half(0), b.In(1), b.In(2), b.HalfOut(0), b.Step.In[0].Spec.DType
	return b.Split(n, 1, func(c *plan.Call, _, lo, hi int) {
		at, r := lo*ch*hw, residual(c)
		if r != nil {
			r = r[at:]
		}
		norm.BatchNormApplyHalf(d, hi-lo, ch, hw, x(c)[at:], mean(c), invstd(c), weight(c), bias(c), r, relu, y[at:])
	})
}

// bindHalfNormGrad binds both gradients: without a ReLU there is no y, and dy comes before.
func bindHalfNormGrad(b *bind.Binder[float32]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, y, at := b.Half(0), b.OptionalHalf(-1), 1
	if b.Step.Op == op.NormReLUGrad {
		y, at = b.Half(1), 2
	}
	dy, mean, invstd, weight, t := b.Half(at), b.In(at+1), b.In(at+2), b.In(at+3), b.Step.In[0].Spec.DType
	dx, dw, db, add := normOutBF16(b)
	var d []uint16
	if len(b.Step.Out) > 3 && b.Step.Out[3].Present() {
		d = b.HalfOut(3)
	}
	return b.Split(ch, 1, func(c *plan.Call, _, lo, hi int) {
		norm.BatchNormGradHalfOf(t, lo, hi, n, ch, hw, x(c), y(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, d, add(c))
	})
}
