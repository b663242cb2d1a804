package kernel

import (
	"fmt"
	"math"
	"testing"
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
	for _, p := range []Conv{
		{N: 2, C: 2, H: 5, W: 6, K: 3, R: 3, S: 2, StrideH: 2, StrideW: 1, PadH: 1, PadW: 1},
		{N: 1, C: 4, H: 6, W: 5, K: 2, R: 2, S: 2, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1, DilH: 2, DilW: 1, Groups: 2},
	} {
		x, w, bias := random[float64](1, p.N*p.C*p.H*p.W), random[float64](2, p.K*p.patch()), random[float64](3, p.K)
		y, dy := make([]float64, p.N*p.K*p.OutH()*p.OutW()), random[float64](4, p.N*p.K*p.OutH()*p.OutW())
		scratch := poisoned[float64](ConvScratch[float64](&p))
		f := func() float64 { Conv2D(&p, x, w, bias, y, scratch); return dot(y, dy) }
		dx, dw, db := make([]float64, len(x)), make([]float64, len(w)), make([]float64, len(bias))
		Conv2DGradInput(&p, dy, w, dx, scratch)
		Conv2DGradWeight(&p, x, dy, dw, scratch, false)
		Conv2DGradBias(&p, dy, db, false)
		gradCheck(t, "conv x", f, x, dx)
		gradCheck(t, "conv w", f, w, dw)
		gradCheck(t, "conv bias", f, bias, db)
	}
}

func TestBatchNormGradients(t *testing.T) {
	const n, c, hw, eps = 3, 2, 5, 1e-5
	x, dy := random[float64](1, n*c*hw), random[float64](2, n*c*hw)
	gamma, beta := random[float64](3, c), random[float64](4, c)
	mean, variance, invstd, y := make([]float64, c), make([]float64, c), make([]float64, c), make([]float64, len(x))
	stats := func() {
		BatchNormStats(n, c, hw, x, mean, variance)
		for i, v := range variance {
			invstd[i] = 1 / math.Sqrt(v+eps)
		}
	}
	apply := func() float64 { BatchNormApply(n, c, hw, x, mean, invstd, gamma, beta, y); return dot(y, dy) }
	train := func() float64 { stats(); return apply() }
	stats()
	dx, dgamma, dbeta := make([]float64, len(x)), make([]float64, c), make([]float64, c)
	BatchNormGrad(n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	gradCheck(t, "training x", train, x, dx)
	gradCheck(t, "training gamma", train, gamma, dgamma)
	gradCheck(t, "training beta", train, beta, dbeta)

	stats()
	split, sumDy, sumDyXmu := make([]float64, len(x)), make([]float64, c), make([]float64, c)
	BatchNormGradReduce(n, c, hw, x, dy, mean, sumDy, sumDyXmu)
	BatchNormGradInput(n, c, hw, n*hw, x, dy, mean, invstd, gamma, sumDy, sumDyXmu, split)
	closeTo(t, "the split gradient", split, dx, 1e-12)

	BatchNormGradEval(n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	gradCheck(t, "evaluation x", apply, x, dx)
	gradCheck(t, "evaluation gamma", apply, gamma, dgamma)
	BatchNormGrad(n, c, hw, x, dy, mean, invstd, nil, dx, nil, nil, false)
	gamma, beta = nil, nil
	gradCheck(t, "training x without affine", train, x, dx)
}

func TestLayerNormGradients(t *testing.T) {
	const rows, cols = 3, 7
	x, dy := random[float64](1, rows*cols), random[float64](2, rows*cols)
	gamma, beta := random[float64](3, cols), random[float64](4, cols)
	mean, invstd, y := make([]float64, rows), make([]float64, rows), make([]float64, len(x))
	f := func() float64 { LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, mean, invstd); return dot(y, dy) }
	f()
	dx, dgamma, dbeta := make([]float64, len(x)), make([]float64, cols), make([]float64, cols)
	LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, false)
	gradCheck(t, "layer norm x", f, x, dx)
	gradCheck(t, "layer norm gamma", f, gamma, dgamma)
	gradCheck(t, "layer norm beta", f, beta, dbeta)
}

func TestPoolGradients(t *testing.T) {
	p := Pool{N: 1, C: 2, H: 5, W: 6, R: 3, S: 2, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, CeilMode: true}
	out := p.N * p.C * p.OutH() * p.OutW()
	x, y, dy, dx, idx := random[float64](1, 60), make([]float64, out), random[float64](2, out), make([]float64, 60), make([]int32, out)
	f := func() float64 { MaxPool2D(&p, x, y, idx); return dot(y, dy) }
	f()
	MaxPool2DGrad(&p, dy, idx, dx)
	gradCheck(t, "max pool", f, x, dx)
	for _, include := range []bool{false, true} {
		p.CountIncludePad = include
		AvgPool2DGrad(&p, dy, dx)
		gradCheck(t, fmt.Sprint("average pool, padding counted ", include), func() float64 { AvgPool2D(&p, x, y); return dot(y, dy) }, x, dx)
	}
	y, dy = make([]float64, 2*3*4), random[float64](3, 2*3*4)
	AdaptiveAvgPool2DGrad(1, 2, 5, 6, 3, 4, dy, dx)
	gradCheck(t, "adaptive pool", func() float64 { AdaptiveAvgPool2D(1, 2, 5, 6, 3, 4, x, y); return dot(y, dy) }, x, dx)
}

func TestActivationGradients(t *testing.T) {
	x, dy := random[float64](1, 40), random[float64](2, 40)
	y, dx := make([]float64, 40), make([]float64, 40)
	for name, f := range map[string]struct{ forward, backward func() }{
		"relu":      {func() { ReLU(x, y) }, func() { ReLUGrad(y, dy, dx) }},
		"gelu":      {func() { GELU(x, y, false) }, func() { GELUGrad(x, dy, dx, false) }},
		"gelu tanh": {func() { GELU(x, y, true) }, func() { GELUGrad(x, dy, dx, true) }},
		"sigmoid":   {func() { Sigmoid(x, y) }, func() { SigmoidGrad(y, dy, dx) }},
		"tanh":      {func() { Tanh(x, y) }, func() { TanhGrad(y, dy, dx) }},
	} {
		f.forward()
		f.backward()
		gradCheck(t, name, func() float64 { f.forward(); return dot(y, dy) }, x, dx)
	}
}

func TestLossGradients(t *testing.T) {
	x, target := random[float64](1, 4*5), []int32{3, -100, 0, 4}
	dx := make([]float64, len(x))
	for _, smoothing := range []float64{0, 0.1} {
		f := func() float64 {
			sum, counted, _ := SoftmaxCrossEntropy(4, 5, x, target, -100, smoothing, nil, nil, 0)
			return sum / float64(counted)
		}
		SoftmaxCrossEntropy(4, 5, x, target, -100, smoothing, nil, dx, 1.0/3)
		gradCheck(t, fmt.Sprint("cross-entropy, smoothing ", smoothing), f, x, dx)
	}
	y := random[float64](2, len(x))
	MSE(x, y, dx, 0.5)
	gradCheck(t, "mse", func() float64 { return 0.5 * MSE(x, y, nil, 0) }, x, dx)
}
