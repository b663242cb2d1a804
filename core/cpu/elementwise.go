package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
)

// activation binds the elementwise functions: those of one slice, and their
// gradients from a saved slice and the incoming gradient.
func activation[T kernel.Float](op graph.Op) func(*binder[T]) job {
	switch op {
	case graph.ReLUOp:
		return unary(kernel.ReLU[T])
	case graph.ReLUGradOp:
		return binary(kernel.ReLUGrad[T])
	case graph.SigmoidOp:
		return unary(kernel.Sigmoid[T])
	case graph.SigmoidGradOp:
		return binary(kernel.SigmoidGrad[T])
	case graph.TanhOp:
		return unary(kernel.Tanh[T])
	case graph.TanhGradOp:
		return binary(kernel.TanhGrad[T])
	case graph.GELUOp:
		return bindGELU[T]
	case graph.GELUGradOp:
		return bindGELUGrad[T]
	}
	return nil
}

func unary[T kernel.Float](f func(x, y []T)) func(*binder[T]) job {
	return func(b *binder[T]) job {
		x := b.in(0)
		y, _ := b.out(0)
		return func(c *plan.Call) { f(x(c), y) }
	}
}

func binary[T kernel.Float](f func(saved, dy, dx []T)) func(*binder[T]) job {
	return func(b *binder[T]) job {
		saved, dy := b.in(0), b.in(1)
		dx, _ := b.out(0)
		return func(c *plan.Call) { f(saved(c), dy(c), dx) }
	}
}

func bindGELU[T kernel.Float](b *binder[T]) job {
	tanh := b.s.Attr.(graph.GELU).Tanh
	return unary(func(x, y []T) { kernel.GELU(x, y, tanh) })(b)
}

func bindGELUGrad[T kernel.Float](b *binder[T]) job {
	tanh := b.s.Attr.(graph.GELU).Tanh
	return binary(func(x, dy, dx []T) { kernel.GELUGrad(x, dy, dx, tanh) })(b)
}

func bindAdd[T kernel.Float](b *binder[T]) job { return binary(kernel.Add[T])(b) }

// bindDropout draws the mask anew in every call, from the run's seed, the call's
// stream and the layer.
func bindDropout[T kernel.Float](b *binder[T]) job {
	a := b.s.Attr.(graph.Dropout)
	x, mask, scale := b.in(0), index[uint8](b.m, &b.s.Out[1]), dropoutScale[T](a.P)
	y, _ := b.out(0)
	return func(c *plan.Call) {
		kernel.DropoutMask(c.Seed, c.Stream|a.Layer, a.P, mask)
		kernel.Dropout(mask, scale, x(c), y)
	}
}

func bindDropoutGrad[T kernel.Float](b *binder[T]) job {
	mask, dy, scale := index[uint8](b.m, &b.s.In[0]), b.in(1), dropoutScale[T](b.s.Attr.(graph.Dropout).P)
	dx, _ := b.out(0)
	return func(c *plan.Call) { kernel.Dropout(mask, scale, dy(c), dx) }
}

// dropoutScale keeps the expectation; with p = 1 nothing is left to scale.
func dropoutScale[T kernel.Float](p float64) T {
	if p >= 1 {
		return 0
	}
	return T(1 / (1 - p))
}
