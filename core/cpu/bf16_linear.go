package cpu

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/op"
	"github.com/trainctl/trainctl/core/plan"
)

func nativeLinear(s *plan.Step) native {
	m, n, k := product(s)
	if !isBF16(s.In[1]) {
		return native{}
	}
	if s.Op == op.LinearGradWeight {
		return native{bind: bindLinearGradWeightBF16, scratch: kernel.GemmBF16Scratch(m, n, k), direct: []int{0, 1}}
	}
	if !isBF16(s.Out[0]) {
		return native{}
	}
	rounded := native{bind: bindLinearBF16, scratch: kernel.GemmBF16RoundedScratch(m, n, k), direct: []int{0, 1, ^0}}
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
		f := kernel.FinishBF16{ReLU: relu}
		if v := bias(c); v != nil {
			f.Bias = v[col:]
		}
		kernel.GemmBF16Rounded(false, true, rows, cols, k, x(c)[row*k:], k, w(c)[col*k:], k, y[row*n+col:], n, f, scratch[part])
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
		var f kernel.FinishBF16
		if v := gate(c); v != nil {
			f.Gate = v[row*n+col:]
		}
		kernel.GemmBF16Rounded(false, false, rows, cols, k, dy(c)[row*k:], k, w(c)[col:], n, dx[row*n+col:], n, f, scratch[part])
	})
}

func bindLinearGradWeightBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	x, dy, scratch := b.half(0), b.half(1), b.scratches()
	dw, add := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		kernel.GemmBF16(true, false, rows, cols, k, dy(c)[row:], m, x(c)[col:], n, dw[row*n+col:], n, scratch[part], add(c))
	})
}
