package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// product is the m, n and k of a linear layer's matrix product.
func product(s *plan.Step) (m, n, k int) {
	switch s.Op {
	case graph.LinearOp: // y [rows, out] = x [rows, in] · wᵀ
		w := s.In[1].Spec.Shape
		return s.In[0].Spec.Shape.Elems() / w[1], w[0], w[1]
	case graph.LinearGradInputOp: // dx [rows, in] = dy [rows, out] · w
		w := s.In[1].Spec.Shape
		return s.In[0].Spec.Shape.Elems() / w[0], w[1], w[0]
	default: // dw [out, in] = dyᵀ · x
		w := s.Out[0].Spec.Shape
		return w[0], w[1], s.In[0].Spec.Shape.Elems() / w[1]
	}
}

func bindLinear[T kernel.Float](b *binder[T]) job {
	rows, out, in := product(b.s)
	x, w, bias, scratch := b.in(0), b.in(1), b.in(2), b.scratch()
	y, _ := b.out(0)
	return func(c *plan.Call) {
		kernel.Gemm(false, true, rows, out, in, 1, x(c), in, w(c), in, 0, y, out, scratch)
		if v := bias(c); v != nil {
			kernel.BiasAdd(rows, out, y, v)
		}
	}
}

func bindLinearGradInput[T kernel.Float](b *binder[T]) job {
	rows, in, out := product(b.s)
	dy, w, scratch := b.in(0), b.in(1), b.scratch()
	dx, _ := b.out(0)
	return func(c *plan.Call) {
		kernel.Gemm(false, false, rows, in, out, 1, dy(c), out, w(c), in, 0, dx, in, scratch)
	}
}

func bindLinearGradWeight[T kernel.Float](b *binder[T]) job {
	out, in, rows := product(b.s)
	x, dy, scratch := b.in(0), b.in(1), b.scratch()
	dw, add := b.out(0)
	return func(c *plan.Call) {
		var beta T
		if add(c) {
			beta = 1
		}
		kernel.Gemm(true, false, out, in, rows, 1, dy(c), out, x(c), in, beta, dw, in, scratch)
	}
}

func bindLinearGradBias[T kernel.Float](b *binder[T]) job {
	cols := b.s.Out[0].Spec.Shape.Elems()
	rows := b.s.In[0].Spec.Shape.Elems() / cols
	dy := b.in(0)
	db, add := b.out(0)
	return func(c *plan.Call) { kernel.BiasGrad(rows, cols, dy(c), db, add(c)) }
}

func bindEmbedding[T kernel.Float](b *binder[T]) job {
	at, table, dim := b.m.place(&b.s.In[0]), b.in(1), b.s.In[1].Spec.Shape[1]
	y, _ := b.out(0)
	entries := b.s.In[1].Spec.Shape[0]
	return func(c *plan.Call) {
		v := tensor.View[int32](at.bytes(c))
		if b.m.check(b.s.Layer, v, entries, 0) {
			kernel.Embedding(v, dim, table(c), y)
		}
	}
}

func bindEmbeddingGrad[T kernel.Float](b *binder[T]) job {
	at, dy, dim := b.m.place(&b.s.In[0]), b.in(1), b.s.Out[0].Spec.Shape[1]
	dt, add := b.out(0)
	return func(c *plan.Call) {
		if b.m.fault.limit == 0 {
			kernel.EmbeddingGrad(tensor.View[int32](at.bytes(c)), dim, dy(c), dt, add(c))
		}
	}
}
