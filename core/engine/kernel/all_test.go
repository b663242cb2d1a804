package kernel_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

func TestGradientsAccumulate(t *testing.T) {
	x, dy, one := []float64{1, 2, 3, 4}, []float64{1, 0, 0, 2}, []float64{1, 1}
	dx, dgamma, dbeta := make([]float64, 4), []float64{10, 20}, []float64{30, 40}
	norm.BatchNormGrad(1, 2, 2, x, dy, []float64{0, 0}, one, one, dx, dgamma, dbeta, true)
	kerneltest.CloseTo(t, "batch norm's dgamma", dgamma, []float64{11, 28}, 0)
	kerneltest.CloseTo(t, "batch norm's dbeta", dbeta, []float64{31, 42}, 0)
	db := []float64{5, 6}
	conv.GradBias(&conv.Shape{N: 1, K: 2, C: 1, H: 1, W: 2, R: 1, S: 1, StrideH: 1, StrideW: 1}, dy, db, true)
	kerneltest.CloseTo(t, "convolution's db", db, []float64{6, 8}, 0)
}

// No kernel allocates, at any level and for both types.
func TestNoKernelAllocates(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		noAllocs[float32](t)
		noAllocs[float64](t)
	})
}

func noAllocs[T kernel.Float](t *testing.T) {
	t.Helper()
	const n, c, hw = 2, 3, 16
	x, y, z := kerneltest.Random[T](1, n*c*hw), kerneltest.Random[T](2, n*c*hw), kerneltest.Random[T](3, n*c*hw)
	a, b, d, e := kerneltest.Random[T](4, c*hw), kerneltest.Random[T](5, c*hw), kerneltest.Random[T](6, c*hw), kerneltest.Random[T](7, c*hw)
	idx, mask, room := make([]int32, n*c*hw), make([]uint8, n*c*hw), make([]T, max(n*c*hw, adaptive.Scratch(4, 4, 2, 2)))
	p := pool.Shape{N: n, C: c, H: 4, W: 4, R: 2, S: 2, StrideH: 2, StrideW: 2}
	for name, f := range map[string]func(){
		"batch norm": func() {
			norm.BatchNormStats(n, c, hw, x, a, b)
			norm.BatchNormApply(n, c, hw, x, a, b, d, e, y)
			norm.BatchNormGrad(n, c, hw, x, y, a, b, d, z, d, e, true)
		},
		"layer norm": func() {
			layernorm.LayerNorm(n, c*hw, x, a, b, 1e-5, y, d, e)
			layernorm.LayerNormGrad(n, c*hw, x, y, d, e, a, z, a, b, true)
		},
		"batch norm of features": func() {
			norm.BatchNormStats(n*hw, c, 1, x, a, b)
			norm.BatchNormReLU(n*hw, c, 1, x, a, b, d, e, nil, y)
			norm.BatchNormReLUGradOf(0, c, n*hw, c, 1, x, y, y, a, b, d, z, d, e, nil, true)
		},
		"group norm": func() {
			s := norm.GroupShape{N: n, C: c, HW: hw, Groups: 1}
			norm.GroupNorm(&s, x, a, b, 1e-5, y, d, e)
			norm.GroupNormGradOf(0, s.Groups, &s, x, y, d, e, a, z, a, b, true)
		},
		"batch norm, ReLU and pooling": func() {
			norm.BatchNormReLUPool(&p, x, a, b, d, e, y, idx, room)
			norm.BatchNormReLUPoolGradOf(0, c, &p, x, y, y, false, idx, a, b, d, e, z, d, e, nil, true)
		},
		"pooling": func() {
			pool.MaxPool2D(&p, x, y, idx, nil)
			pool.MaxPool2DGrad(&p, y, idx, z, nil)
			pool.AvgPool2D(&p, x, y, nil)
			pool.AvgPool2DGrad(&p, y, z, room)
			adaptive.AvgPool2D(n, c, 4, 4, 2, 2, x, y, room)
			adaptive.AvgPool2DGrad(n, c, 4, 4, 2, 2, y, z, room)
		},
		"activations": func() {
			elementwise.ReLU(x, y)
			elementwise.ReLUGrad(y, x, z)
			elementwise.GELU(x, y, true)
			elementwise.Tanh(x, y)
			elementwise.Sigmoid(x, y)
		},
		"loss": func() {
			clear(idx)
			loss.SoftmaxCrossEntropy(n, c*hw, x, idx, loss.Criterion{Ignore: -100, Smoothing: 0.1}, nil, y, 1)
			loss.MSE(x, y, z, 1)
		},
		"dropout": func() { random.DropoutMask(1, 2, 0.5, mask); elementwise.Dropout(mask, 2, x, y) },
		"updates": func() {
			optimizer.SGDUpdate(x, y, z, 0.1, 0.9, 0, 0, true, false, false)
			optimizer.AdamUpdate(x, y, z, z, nil, 0.1, 0.9, 0.99, 1e-8, 0, 3, true, false)
		},
		"scans": func() { reduce.SumSquares(x); reduce.AllFinite(x) },
	} {
		if got := testing.AllocsPerRun(2, f); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
