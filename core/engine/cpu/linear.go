package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	scratch := func(s *plan.Step, _ int) int { return gemm.GemmScratch(product(s)) }
	forward := implementation{f32: bindLinear[float32], f64: bindLinear[float64], half: nativeLinear, blocks: cuts{along: images, of: []int{0, ^0}}, scratch: scratch}
	gradInput := implementation{f32: bindLinearGradInput[float32], f64: bindLinearGradInput[float64], half: nativeLinear, blocks: cuts{along: images, of: []int{0, 2, ^0}}, scratch: scratch}
	implement(op.Linear, forward)
	implement(op.LinearReLU, forward)
	implement(op.LinearGradInput, gradInput)
	implement(op.LinearGradInputReLU, gradInput)
	implement(op.LinearGradWeight, implementation{f32: bindLinearGradWeight[float32], f64: bindLinearGradWeight[float64], half: nativeLinear, blocks: cuts{along: images, of: []int{0, 1}}, scratch: scratch, sums: true})
	implement(op.LinearGradBias, implementation{f32: bindLinearGradBias[float32], f64: bindLinearGradBias[float64], blocks: cuts{along: images, of: []int{0}}, sums: true})
}

// product is the m, n and k of a linear layer's matrix product.
func product(s *plan.Step) (m, n, k int) {
	switch s.Op {
	case op.Linear, op.LinearReLU: // y [rows, out] = x [rows, in] · wᵀ
		w := s.In[1].Spec.Shape
		return s.In[0].Spec.Shape.Elems() / w[1], w[0], w[1]
	case op.LinearGradInput, op.LinearGradInputReLU: // dx [rows, in] = dy [rows, out] · w
		w := s.In[1].Spec.Shape
		return s.In[0].Spec.Shape.Elems() / w[0], w[1], w[0]
	default: // dw [out, in] = dyᵀ · x
		w := s.Out[0].Spec.Shape
		return w[0], w[1], s.In[0].Spec.Shape.Elems() / w[1]
	}
}

// gemm shares a product C [m, n] among threads: by columns, or by rows where
// there are few columns. run gets the first row and column of its share.
func (b *binder[T]) gemm(m, n int, run func(c *plan.Call, part, row, rows, col, cols int)) job {
	const few, rowUnit, colUnit = 64, 14, 32 // of the largest micro-kernel
	if n < few {
		return b.split(m, rowUnit, func(c *plan.Call, part, lo, hi int) { run(c, part, lo, hi-lo, 0, n) })
	}
	return b.split(n, colUnit, func(c *plan.Call, part, lo, hi int) { run(c, part, 0, m, lo, hi-lo) })
}

func bindLinear[T kernel.Float](b *binder[T]) job {
	m, n, k := product(b.s)
	x, w, bias, scratch := b.in(0), b.in(1), b.in(2), b.scratches()
	y, _ := b.out(0)
	relu := b.s.Op == op.LinearReLU
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		f := gemm.Finish[T]{ReLU: relu}
		if v := bias(c); v != nil {
			f.Bias = v[col:]
		}
		gemm.GemmFinish(false, true, rows, cols, k, 1, x(c)[row*k:], k, w(c)[col*k:], k, 0, y[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradInput[T kernel.Float](b *binder[T]) job {
	m, n, k := product(b.s)
	dy, w, gate, scratch := b.in(0), b.in(1), b.in(2), b.scratches()
	dx, _ := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var f gemm.Finish[T]
		if v := gate(c); v != nil {
			f.Gate = v[row*n+col:]
		}
		gemm.GemmFinish(false, false, rows, cols, k, 1, dy(c)[row*k:], k, w(c)[col:], n, 0, dx[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradWeight[T kernel.Float](b *binder[T]) job {
	m, n, k := product(b.s)
	x, dy, scratch := b.in(0), b.in(1), b.scratches()
	dw, add := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var beta T
		if add(c) {
			beta = 1
		}
		gemm.Gemm(true, false, rows, cols, k, 1, dy(c)[row:], m, x(c)[col:], n, beta, dw[row*n+col:], n, scratch[part])
	})
}

func bindLinearGradBias[T kernel.Float](b *binder[T]) job {
	cols := b.s.Out[0].Spec.Shape.Elems()
	rows := b.s.In[0].Spec.Shape.Elems() / cols
	dy := b.in(0)
	db, add := b.out(0)
	return func(c *plan.Call) { elementwise.BiasGrad(rows, cols, dy(c), db, add(c)) }
}

func nativeLinear(s *plan.Step) native {
	m, n, k := product(s)
	if !kernel.HasBF16Products() || !isBF16(s.In[0]) || !isBF16(s.In[1]) {
		return native{}
	}
	if s.Op == op.LinearGradWeight {
		return native{bind: bindLinearGradWeightBF16, scratch: gemm.GemmBF16Scratch(m, n, k), direct: []int{0, 1}}
	}
	if !isBF16(s.Out[0]) {
		return native{}
	}
	rounded := native{bind: bindLinearBF16, scratch: gemm.GemmBF16RoundedScratch(m, n, k), direct: []int{0, 1, ^0}}
	switch s.Op {
	case op.LinearGradInput:
		rounded.bind = bindLinearGradInputBF16
	case op.LinearGradInputReLU:
		rounded.bind, rounded.direct = bindLinearGradInputBF16, append(rounded.direct, 2)
		if !isBF16(s.In[2]) {
			return native{}
		}
	}
	return rounded
}

func bindLinearBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	x, w, bias, scratch := b.half(0), b.half(1), b.in(2), b.scratches()
	y, relu := b.halfOut(0), b.s.Op == op.LinearReLU
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		f := gemm.FinishBF16{ReLU: relu}
		if v := bias(c); v != nil {
			f.Bias = v[col:]
		}
		gemm.GemmBF16Rounded(false, true, rows, cols, k, x(c)[row*k:], k, w(c)[col*k:], k, y[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradInputBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	dy, w, dx, scratch := b.half(0), b.half(1), b.halfOut(0), b.scratches()
	gate := func(*plan.Call) []uint16 { return nil }
	if b.s.Op == op.LinearGradInputReLU {
		gate = b.half(2)
	}
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var f gemm.FinishBF16
		if v := gate(c); v != nil {
			f.Gate = v[row*n+col:]
		}
		gemm.GemmBF16Rounded(false, false, rows, cols, k, dy(c)[row*k:], k, w(c)[col:], n, dx[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradWeightBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	x, dy, scratch := b.half(0), b.half(1), b.scratches()
	dw, add := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		gemm.GemmBF16(true, false, rows, cols, k, dy(c)[row:], m, x(c)[col:], n, dw[row*n+col:], n, scratch[part], add(c))
	})
}
