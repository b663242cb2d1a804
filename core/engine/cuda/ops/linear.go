package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Linear, bindLinear)
	implement(op.LinearGradInput, bindLinearGradInput)
	implement(op.LinearGradWeight, bindLinearGradWeight)
	implement(op.LinearGradBias, bindLinearGradBias)
	implement(op.LinearReLU, bindLinearReLU)
	implement(op.LinearGradInputReLU, bindLinearGradInputReLU)
}

// gemm is C [m, n] = A·B (+ bias) by a kernel, the strides of A by row and column, then of B.
func (b *binder) gemm(a driver.DevicePtr, ai, al int, w driver.DevicePtr, bl, bj int, bias driver.DevicePtr, m, n, k int) {
	const tile = 64
	b.launch(b.s.Out[0].Spec.DType, "gemm", (n+tile-1)/tile, (m+tile-1)/tile,
		a, int64(ai), int64(al), w, int64(bl), int64(bj), bias, b.out(0), m, n, k, b.adds(0))
}

// forward is y [rows, out] = x [rows, in]·wᵀ (+ bias), and the ReLU's output
// and mask if the epilogue asks for them.
func (b *binder) forward(epilogue uint32, mask driver.DevicePtr) bool {
	w, d := b.s.In[1].Spec.Shape, b.s.Out[0].Spec.DType
	if len(b.s.In) > 2 && b.s.In[2].Present() {
		if b.s.In[2].Spec.DType != d {
			return false
		}
		epilogue |= driver.EpilogueBias
	}
	if epilogue == 0 {
		epilogue = driver.EpilogueDefault
	}
	p := library.Product{M: w[0], N: b.s.In[0].Spec.Shape.Elems() / w[1], K: w[1], TransA: true, D: d, Epilogue: epilogue}
	return b.product(p, library.Operands{A: b.in(1), B: b.in(0), D: b.out(0), Bias: b.in(2), Aux: mask})
}

func bindLinear(b *binder) {
	if b.forward(0, 0) {
		return
	}
	w := b.s.In[1].Spec.Shape
	b.gemm(b.in(0), w[1], 1, b.in(1), 1, w[1], b.in(2), b.s.In[0].Spec.Shape.Elems()/w[1], w[0], w[1])
}

// bindLinearReLU passes the layer's output through the ReLU on its way to
// memory. Where a gradient will ask which elements passed, it leaves a mask of them.
func bindLinearReLU(b *binder) {
	w := b.s.In[1].Spec.Shape
	if bytes := library.MaskStride(w[0]) / 8 * (b.s.In[0].Spec.Shape.Elems() / w[1]); b.gated() {
		if mask := b.keep(bytes); b.forward(driver.EpilogueReLUAux, mask) {
			b.masks[b.step] = mask
			return
		}
	}
	if b.forward(driver.EpilogueReLU, 0) {
		return
	}
	bindLinear(b)
	y := b.s.Out[0].Spec
	b.elementwise(y.DType, "relu_of", y.Shape.Elems(), b.out(0), b.out(0))
}

// gated reports whether a later step asks which elements of the output are positive.
func (b *binder) gated() bool {
	if b.lib.BLAS == nil {
		return false
	}
	for j := b.step + 1; j < len(b.flow.steps); j++ {
		if w, ok := b.flow.writer(j, 2); ok && w == b.step && b.flow.steps[j].Op == op.LinearGradInputReLU {
			return true
		}
	}
	return false
}

// gradInput is dx [rows, in] = dy [rows, out]·w.
func (b *binder) gradInput(epilogue uint32, mask driver.DevicePtr) bool {
	w := b.s.In[1].Spec.Shape
	p := library.Product{M: w[1], N: b.s.In[0].Spec.Shape.Elems() / w[0], K: w[0], D: b.s.Out[0].Spec.DType, Epilogue: epilogue}
	return b.product(p, library.Operands{A: b.in(1), B: b.in(0), D: b.out(0), Aux: mask})
}

func bindLinearGradInput(b *binder) {
	if b.gradInput(driver.EpilogueDefault, 0) {
		return
	}
	w := b.s.In[1].Spec.Shape
	b.gemm(b.in(0), w[0], 1, b.in(1), w[1], 1, 0, b.s.In[0].Spec.Shape.Elems()/w[0], w[1], w[0])
}

// bindLinearGradInputReLU passes the input gradient through the gate of the
// ReLU before the layer, which left a mask if it could.
func bindLinearGradInputReLU(b *binder) {
	if w, ok := b.flow.writer(b.step, 2); ok {
		if mask, ok := b.masks[w]; ok && b.gradInput(driver.EpilogueDReLU, mask) {
			return
		}
	}
	bindLinearGradInput(b)
	dx := b.s.Out[0].Spec
	b.elementwise(dx.DType, "relu_grad", dx.Shape.Elems(), b.in(2), b.out(0), b.out(0))
}

// gradWeight is the product dw [out, in] = dyᵀ·x of a step.
func (b *binder) gradWeight(s *plan.Step, epilogue uint32) (library.Product, library.Operands) {
	w := s.Out[0].Spec.Shape
	p := library.Product{M: w[1], N: w[0], K: s.In[0].Spec.Shape.Elems() / w[1], TransB: true, D: s.Out[0].Spec.DType, Epilogue: epilogue}
	return p, library.Operands{A: b.at(s.In, 0), B: b.at(s.In, 1), D: b.at(s.Out, 0)}
}

func bindLinearGradWeight(b *binder) {
	before := len(b.items)
	p, f := b.gradWeight(b.s, driver.EpilogueDefault)
	f.Add = b.adds(0)
	if b.product(p, f) {
		if b.done[b.step] {
			b.only(before, f.Add, nil)
		}
		return
	}
	w := b.s.Out[0].Spec.Shape
	b.gemm(b.in(1), 1, w[0], b.in(0), w[1], 1, 0, w[0], w[1], p.K)
}

// bindLinearGradBias sums the rows of dy. Where the next step makes the weight's
// gradient of the same dy and neither adds, that product sums them on its way.
func bindLinearGradBias(b *binder) {
	before := len(b.items)
	if w := b.weightNext(); w != nil {
		p, f := b.gradWeight(w, driver.EpilogueBGradB)
		f.Bias = b.out(0)
		if b.product(p, f) {
			b.done[b.step+1] = true
			b.only(before, nil, b.adds(0))
			before = len(b.items)
			b.columnSums()
			b.only(before, b.adds(0), nil)
			return
		}
	}
	b.columnSums()
}

func (b *binder) columnSums() {
	x, cols := b.s.In[0].Spec, b.s.Out[0].Spec.Shape.Elems()
	b.launch(x.DType, "column_sums", (cols+31)/32, 1, b.in(0), x.Shape.Elems()/cols, cols, b.out(0), typeOf(b.s.Out, 0), b.adds(0))
}

// weightNext is the next step if that can be made together with this one. What
// it writes may be written now: no memory is handed on between the two.
func (b *binder) weightNext() *plan.Step {
	if b.step+1 >= len(b.flow.steps) {
		return nil
	}
	s := &b.flow.steps[b.step+1]
	if s.Op != op.LinearGradWeight || s.Branch != b.s.Branch || s.In[1].Address() != b.s.In[0].Address() {
		return nil
	}
	w, own := &s.Out[0], &b.s.Out[0]
	if w.Add || own.Add || w.Place != own.Place || w.Spec.DType != own.Spec.DType {
		return nil
	}
	return s
}
