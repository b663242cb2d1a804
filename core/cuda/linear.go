package cuda

import "github.com/trainctl/trainctl/core/cuda/driver"

// gemm is C [m, n] = A·B (+ bias), the strides of A by row and column, then of B.
func (b *binder) gemm(a driver.DevicePtr, ai, al int, w driver.DevicePtr, bl, bj int, bias driver.DevicePtr, m, n, k int) {
	const tile = 64
	b.launch(b.s.Out[0].Spec.DType, "gemm", (n+tile-1)/tile, (m+tile-1)/tile,
		a, int64(ai), int64(al), w, int64(bl), int64(bj), bias, b.out(0), m, n, k, b.adds(0))
}

// bindLinear is y [rows, out] = x [rows, in]·wᵀ.
func bindLinear(b *binder) {
	w := b.s.In[1].Spec.Shape
	b.gemm(b.in(0), w[1], 1, b.in(1), 1, w[1], b.in(2), b.s.In[0].Spec.Shape.Elems()/w[1], w[0], w[1])
}

// bindLinearGradInput is dx [rows, in] = dy [rows, out]·w.
func bindLinearGradInput(b *binder) {
	w := b.s.In[1].Spec.Shape
	b.gemm(b.in(0), w[0], 1, b.in(1), w[1], 1, 0, b.s.In[0].Spec.Shape.Elems()/w[0], w[1], w[0])
}

// bindLinearGradWeight is dw [out, in] = dyᵀ·x.
func bindLinearGradWeight(b *binder) {
	w := b.s.Out[0].Spec.Shape
	b.gemm(b.in(1), 1, w[0], b.in(0), w[1], 1, 0, w[0], w[1], b.s.In[0].Spec.Shape.Elems()/w[1])
}

func bindLinearGradBias(b *binder) {
	x, cols := b.s.In[0].Spec, b.s.Out[0].Spec.Shape.Elems()
	b.launch(x.DType, "column_sums", (cols+31)/32, 1, b.in(0), x.Shape.Elems()/cols, cols, b.out(0), typeOf(b.s.Out, 0), b.adds(0))
}

// bindLinearReLU passes the layer's output through the ReLU where it lies.
func bindLinearReLU(b *binder) {
	bindLinear(b)
	y := b.s.Out[0].Spec
	b.elementwise(y.DType, "relu", y.Shape.Elems(), b.out(0), b.out(0))
}

// bindLinearGradInputReLU passes the input gradient through the gate of the ReLU before the layer.
func bindLinearGradInputReLU(b *binder) {
	bindLinearGradInput(b)
	dx := b.s.Out[0].Spec
	b.elementwise(dx.DType, "relu_grad", dx.Shape.Elems(), b.in(2), b.out(0), b.out(0))
}
