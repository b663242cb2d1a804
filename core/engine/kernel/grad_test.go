package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
)

// gradCheck compares grad with central differences of f at x.
func gradCheck(t *testing.T, what string, f func() float64, x, grad []float64) {
	t.Helper()
	const h = 1e-5
	for i, old := range x {
		x[i] = old + h
		up := f()
		x[i] = old - h
		down := f()
		x[i] = old
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-6*max(1, math.Abs(want)) {
			t.Fatalf("%s: d/dx[%d] is %v, differences give %v", what, i, grad[i], want)
		}
	}
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func TestConvGradients(t *testing.T) {
	for _, p := range []conv.Shape{
		{N: 2, C: 2, H: 5, W: 6, K: 3, R: 3, S: 2, StrideH: 2, StrideW: 1, PadH: 1, PadW: 1},
		{N: 1, C: 4, H: 6, W: 5, K: 2, R: 2, S: 2, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1, DilH: 2, DilW: 1, Groups: 2},
	} {
		x, w, bias := kerneltest.Random[float64](1, p.N*p.C*p.H*p.W), kerneltest.Random[float64](2, p.K*p.C/max(p.Groups, 1)*p.R*p.S), kerneltest.Random[float64](3, p.K)
		y, dy := make([]float64, p.N*p.K*p.OutH()*p.OutW()), kerneltest.Random[float64](4, p.N*p.K*p.OutH()*p.OutW())
		scratch := kerneltest.Poisoned[float64](conv.Scratch[float64](&p))
		f := func() float64 { conv.Forward(&p, x, w, bias, y, scratch); return dot(y, dy) }
		dx, dw, db := make([]float64, len(x)), make([]float64, len(w)), make([]float64, len(bias))
		conv.GradInput(&p, dy, w, dx, scratch)
		conv.GradWeight(&p, x, dy, dw, scratch, false)
		conv.GradBias(&p, dy, db, false)
		gradCheck(t, "conv x", f, x, dx)
		gradCheck(t, "conv w", f, w, dw)
		gradCheck(t, "conv bias", f, bias, db)
		parts := make([]float64, len(bias))
		conv.GradBiasOf(&p, 1, p.K, dy, parts, false)
		conv.GradBiasOf(&p, 0, 1, dy, parts, false)
		kerneltest.CloseTo(t, "conv bias in parts", parts, db, 0)
	}
}

func TestBatchNormGradients(t *testing.T) {
	const n, c, hw, eps = 3, 2, 5, 1e-5
	x, dy := kerneltest.Random[float64](1, n*c*hw), kerneltest.Random[float64](2, n*c*hw)
	gamma, beta := kerneltest.Random[float64](3, c), kerneltest.Random[float64](4, c)
	mean, variance, invstd, y := make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, len(x))
	stats := func() {
		norm.BatchNormStats(n, c, hw, x, mean, variance)
		for i, v := range variance {
			invstd[i] = 1 / math.Sqrt(v+eps)
		}
	}
	apply := func() float64 { norm.BatchNormApply(n, c, hw, x, mean, invstd, gamma, beta, y); return dot(y, dy) }
	train := func() float64 { stats(); return apply() }
	stats()
	dx, dgamma, dbeta := make([]float64, len(x)), make([]float64, c), make([]float64, c)
	norm.BatchNormGrad(n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	gradCheck(t, "training x", train, x, dx)
	gradCheck(t, "training gamma", train, gamma, dgamma)
	gradCheck(t, "training beta", train, beta, dbeta)

	stats()
	split, sumDy, sumDyXmu := make([]float64, len(x)), make([]float64, c), make([]float64, c)
	norm.BatchNormGradReduce(n, c, hw, x, dy, mean, sumDy, sumDyXmu)
	norm.BatchNormGradInput(n, c, hw, n*hw, x, dy, mean, invstd, gamma, sumDy, sumDyXmu, split)
	kerneltest.CloseTo(t, "the split gradient", split, dx, 1e-12)

	norm.BatchNormGrad(n, c, hw, x, dy, mean, invstd, nil, dx, nil, nil, false)
	gamma, beta = nil, nil
	gradCheck(t, "training x without affine", train, x, dx)
}

func TestLayerNormGradients(t *testing.T) {
	const rows, cols = 3, 7
	x, dy := kerneltest.Random[float64](1, rows*cols), kerneltest.Random[float64](2, rows*cols)
	gamma, beta := kerneltest.Random[float64](3, cols), kerneltest.Random[float64](4, cols)
	mean, invstd, y := make([]float64, rows), make([]float64, rows), make([]float64, len(x))
	f := func() float64 {
		layernorm.LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, mean, invstd)
		return dot(y, dy)
	}
	f()
	dx, dgamma, dbeta := make([]float64, len(x)), make([]float64, cols), make([]float64, cols)
	layernorm.LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	gradCheck(t, "layer norm x", f, x, dx)
	gradCheck(t, "layer norm gamma", f, gamma, dgamma)
	gradCheck(t, "layer norm beta", f, beta, dbeta)
}

func TestPoolGradients(t *testing.T) {
	p := pool.Shape{N: 1, C: 2, H: 5, W: 6, R: 3, S: 2, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, CeilMode: true}
	out := p.N * p.C * p.OutH() * p.OutW()
	x, y, dy, dx, idx := kerneltest.Random[float64](1, 60), make([]float64, out), kerneltest.Random[float64](2, out), make([]float64, 60), make([]int32, out)
	f := func() float64 { pool.MaxPool2D(&p, x, y, idx, nil); return dot(y, dy) }
	f()
	pool.MaxPool2DGrad(&p, dy, idx, dx, nil)
	gradCheck(t, "max pool", f, x, dx)
	for _, include := range []bool{false, true} {
		p.CountIncludePad = include
		pool.AvgPool2DGrad(&p, dy, dx, make([]float64, p.GradScratch()))
		gradCheck(t, fmt.Sprint("average pool, padding counted ", include), func() float64 { pool.AvgPool2D(&p, x, y, nil); return dot(y, dy) }, x, dx)
	}
	y, dy = make([]float64, 2*3*4), kerneltest.Random[float64](3, 2*3*4)
	adaptive.AvgPool2DGrad(1, 2, 5, 6, 3, 4, dy, dx, make([]float64, adaptive.Scratch(5, 6, 3, 4)))
	gradCheck(t, "adaptive pool", func() float64 {
		adaptive.AvgPool2D(1, 2, 5, 6, 3, 4, x, y, make([]float64, adaptive.Scratch(5, 6, 3, 4)))
		return dot(y, dy)
	}, x, dx)
}

func TestActivationGradients(t *testing.T) {
	x, dy := kerneltest.Random[float64](1, 40), kerneltest.Random[float64](2, 40)
	y, dx := make([]float64, 40), make([]float64, 40)
	for name, f := range map[string]struct{ forward, backward func() }{
		"relu":      {func() { elementwise.ReLU(x, y) }, func() { elementwise.ReLUGrad(y, dy, dx) }},
		"gelu":      {func() { elementwise.GELU(x, y, false) }, func() { elementwise.GELUGrad(x, dy, dx, false) }},
		"gelu tanh": {func() { elementwise.GELU(x, y, true) }, func() { elementwise.GELUGrad(x, dy, dx, true) }},
		"sigmoid":   {func() { elementwise.Sigmoid(x, y) }, func() { elementwise.SigmoidGrad(y, dy, dx) }},
		"tanh":      {func() { elementwise.Tanh(x, y) }, func() { elementwise.TanhGrad(y, dy, dx) }},
	} {
		f.forward()
		f.backward()
		gradCheck(t, name, func() float64 { f.forward(); return dot(y, dy) }, x, dx)
	}
}

func TestLossGradients(t *testing.T) {
	x, target := kerneltest.Random[float64](1, 4*5), []int32{3, -100, 0, 4}
	dx := make([]float64, len(x))
	y := kerneltest.Random[float64](2, len(x))
	for _, how := range []loss.Criterion{{}, {Smoothing: 0.1}, {Weights: []float64{1, 2, 0, 0.5, 3}}, {Smoothing: 0.3, Weights: []float64{1, 2, 0, 0.5, 3}}} {
		how.Ignore = -100
		hard := func(dx []float64) float64 {
			sum, _, _ := loss.SoftmaxCrossEntropy(4, 5, x, target, how, nil, dx, 0.5)
			return sum / 2
		}
		soft := func(dx []float64) float64 {
			sum, _, _ := loss.SoftCrossEntropy(4, 5, x, y, how, dx, 0.5)
			return sum / 2
		}
		for name, f := range map[string]func(dx []float64) float64{"classes": hard, "probabilities": soft} {
			f(dx)
			gradCheck(t, fmt.Sprint("cross-entropy of ", name, " ", how), func() float64 { return f(nil) }, x, dx)
		}
	}
	for name, f := range map[string]loss.Elements[float64]{"mse": loss.MSE[float64], "l1": loss.L1[float64], "huber": loss.Huber(0.7), "bce": loss.BCEWithLogits[float64]} {
		f(x, y, dx, 0.5)
		gradCheck(t, name, func() float64 { return 0.5 * f(x, y, nil, 0) }, x, dx)
	}
}
