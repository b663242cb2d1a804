package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	scratch := func(s *plan.Step, _ int) int { return gemm.GemmScratch(product(s)) }
	forward := bind.Implementation{F32: bindLinear[float32], F64: bindLinear[float64], Half: nativeLinear, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: scratch, WideWeight: true}
	gradInput := bind.Implementation{F32: bindLinearGradInput[float32], F64: bindLinearGradInput[float64], Half: nativeLinear, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 2, ^0}}, Scratch: scratch, WideWeight: true}
	bind.Implement(op.Linear, forward)
	bind.Implement(op.LinearReLU, forward)
	bind.Implement(op.LinearGradInput, gradInput)
	bind.Implement(op.LinearGradInputReLU, gradInput)
	bind.Implement(op.LinearGradWeight, bind.Implementation{F32: bindLinearGradWeight[float32], F64: bindLinearGradWeight[float64], Half: nativeLinear, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1}}, Scratch: scratch, Sums: true})
	bind.Implement(op.LinearGradBias, bind.Implementation{F32: bindLinearGradBias[float32], F64: bindLinearGradBias[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0}}, Sums: true})
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

// splitProduct shares a product C [m, n] among threads: by columns, or by rows where
// there are few columns. run gets the first row and column of its share.
func splitProduct[T kernel.Float](b *bind.Binder[T], m, n int, run func(c *plan.Call, part, row, rows, col, cols int)) bind.Job {
	const few, rowUnit, colUnit = 64, 14, 32 // of the largest micro-kernel
	if n < few {
		return b.Split(m, rowUnit, func(c *plan.Call, part, lo, hi int) { run(c, part, lo, hi-lo, 0, n) })
	}
	return b.Split(n, colUnit, func(c *plan.Call, part, lo, hi int) { run(c, part, 0, m, lo, hi-lo) })
}

func bindLinear[T kernel.Float](b *bind.Binder[T]) bind.Job {
	m, n, k := product(b.Step)
	x, w, bias, scratch := b.In(0), b.In(1), b.In(2), b.Scratches()
	y, _ := b.Out(0)
	relu := b.Step.Op == op.LinearReLU
	if b.Step.Positions == 1 {
		return b.Split(n, 32, func(c *plan.Call, _, lo, hi int) {
			part := y[lo:hi]
			elementwise.VectorDots(hi-lo, k, w(c)[lo*k:], k, x(c), part)
			if v := bias(c); v != nil {
				elementwise.AddTo(part, v[lo:hi])
			}
			if relu {
				elementwise.ReLU(part, part)
			}
		})
	}
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		f := gemm.Finish[T]{ReLU: relu}
		if v := bias(c); v != nil {
			f.Bias = v[col:]
		}
		gemm.GemmFinish(false, true, rows, cols, k, 1, x(c)[row*k:], k, w(c)[col*k:], k, 0, y[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradInput[T kernel.Float](b *bind.Binder[T]) bind.Job {
	m, n, k := product(b.Step)
	dy, w, gate, scratch := b.In(0), b.In(1), b.In(2), b.Scratches()
	dx, _ := b.Out(0)
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var f gemm.Finish[T]
		if v := gate(c); v != nil {
			f.Gate = v[row*n+col:]
		}
		gemm.GemmFinish(false, false, rows, cols, k, 1, dy(c)[row*k:], k, w(c)[col:], n, 0, dx[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradWeight[T kernel.Float](b *bind.Binder[T]) bind.Job {
	m, n, k := product(b.Step)
	x, dy, scratch := b.In(0), b.In(1), b.Scratches()
	dw, add := b.Out(0)
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var beta T
		if add(c) {
			beta = 1
		}
		gemm.Gemm(true, false, rows, cols, k, 1, dy(c)[row:], m, x(c)[col:], n, beta, dw[row*n+col:], n, scratch[part])
	})
}

func bindLinearGradBias[T kernel.Float](b *bind.Binder[T]) bind.Job {
	cols := b.Step.Out[0].Spec.Shape.Elems()
	rows := b.Step.In[0].Spec.Shape.Elems() / cols
	dy := b.In(0)
	db, add := b.Out(0)
	unit := elementwise.BiasGradParts(cols)
	return b.Split(cols, max(1, bind.ShareElems/(rows*unit))*unit, func(c *plan.Call, _, lo, hi int) {
		elementwise.BiasGradOf(rows, cols, lo, hi, dy(c), db, add(c))
	})
}

// fewPairs reports whether the pairs of a product of bfloat16 take longer to pack than widening takes: those of
// short sums, and those of weight gradients with few columns.
func fewPairs(s *plan.Step, n, k int) bool {
	if s.Op == op.LinearGradWeight {
		return n < 16
	}
	return k < 24
}

func nativeLinear(s *plan.Step) bind.Native {
	m, n, k := product(s)
	if !kernel.HasBF16Products() || !bind.IsBF16(s.In[0]) || !bind.IsBF16(s.In[1]) || fewPairs(s, n, k) {
		return bind.Native{}
	}
	if s.Op == op.LinearGradWeight {
		return bind.Native{Bind: bindLinearGradWeightBF16, Scratch: gemm.GemmBF16Scratch(m, n, k), Direct: []int{0, 1}}
	}
	if !bind.IsBF16(s.Out[0]) {
		return bind.Native{}
	}
	rounded := bind.Native{Bind: bindLinearBF16, Scratch: gemm.GemmBF16RoundedScratch(m, n, k), Direct: []int{0, 1, ^0}}
	switch s.Op {
	case op.LinearGradInput:
		rounded.Bind = bindLinearGradInputBF16
	case op.LinearGradInputReLU:
		rounded.Bind, rounded.Direct = bindLinearGradInputBF16, append(rounded.Direct, 2)
		if !bind.IsBF16(s.In[2]) {
			return bind.Native{}
		}
	}
	return rounded
}

func bindLinearBF16(b *bind.Binder[float32]) bind.Job {
	m, n, k := product(b.Step)
	x, w, bias, scratch := b.Half(0), b.Half(1), b.In(2), b.Scratches()
	y, relu := b.HalfOut(0), b.Step.Op == op.LinearReLU
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		f := gemm.FinishBF16{ReLU: relu}
		if v := bias(c); v != nil {
			f.Bias = v[col:]
		}
		gemm.GemmBF16Rounded(false, true, rows, cols, k, x(c)[row*k:], k, w(c)[col*k:], k, y[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradInputBF16(b *bind.Binder[float32]) bind.Job {
	m, n, k := product(b.Step)
	dy, w, dx, scratch := b.Half(0), b.Half(1), b.HalfOut(0), b.Scratches()
	gate := func(*plan.Call) []uint16 { return nil }
	if b.Step.Op == op.LinearGradInputReLU {
		gate = b.Half(2)
	}
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		var f gemm.FinishBF16
		if v := gate(c); v != nil {
			f.Gate = v[row*n+col:]
		}
		gemm.GemmBF16Rounded(false, false, rows, cols, k, dy(c)[row*k:], k, w(c)[col:], n, dx[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradWeightBF16(b *bind.Binder[float32]) bind.Job {
	m, n, k := product(b.Step)
	x, dy, scratch := b.Half(0), b.Half(1), b.Scratches()
	dw, add := b.Out(0)
	return splitProduct(b, m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		gemm.GemmBF16(true, false, rows, cols, k, dy(c)[row:], m, x(c)[col:], n, dw[row*n+col:], n, scratch[part], add(c))
	})
}
