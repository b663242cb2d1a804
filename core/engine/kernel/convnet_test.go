package kernel

import "testing"

// convBlock is convolution, batch norm, ReLU and 2×2 max pooling with their gradients.
type convBlock struct {
	conv                                   Conv
	pool                                   Pool
	w, bias, dw, db                        []float32
	gamma, beta, mean, variance, invstd    []float32
	dgamma, dbeta                          []float32
	y, norm, out, dout, dnorm, dx, scratch []float32
	idx                                    []int32
}

func newConvBlock(n, c, hw, k int) *convBlock {
	conv := Conv{N: n, C: c, H: hw, W: hw, K: k, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}
	pool := Pool{N: n, C: k, H: hw, W: hw, R: 2, S: 2, StrideH: 2, StrideW: 2}
	weights, out := k*conv.patch(), n*k*hw*hw
	zeros := func(n int) []float32 { return make([]float32, n) }
	b := &convBlock{
		conv: conv, pool: pool, w: random[float32](1, weights), bias: random[float32](2, k), dw: zeros(weights), db: zeros(k),
		gamma: random[float32](3, k), beta: random[float32](4, k), mean: zeros(k), variance: zeros(k), invstd: zeros(k),
		dgamma: zeros(k), dbeta: zeros(k), y: zeros(out), norm: zeros(out), out: zeros(out / 4), dout: zeros(out / 4),
		dnorm: zeros(out), dx: zeros(n * c * hw * hw), scratch: zeros(ConvScratch[float32](&conv)), idx: make([]int32, out/4),
	}
	Fill(b.invstd, 1)
	return b
}

func (b *convBlock) forward(x []float32) {
	n, k, hw := b.conv.N, b.conv.K, b.conv.H*b.conv.W
	Conv2D(&b.conv, x, b.w, b.bias, b.y, b.scratch)
	BatchNormStats(n, k, hw, b.y, b.mean, b.variance)
	BatchNormApply(n, k, hw, b.y, b.mean, b.invstd, b.gamma, b.beta, b.norm)
	ReLU(b.norm, b.norm)
	MaxPool2D(&b.pool, b.norm, b.out, b.idx)
}

func (b *convBlock) backward(x []float32, input bool) {
	n, k, hw := b.conv.N, b.conv.K, b.conv.H*b.conv.W
	MaxPool2DGrad(&b.pool, b.dout, b.idx, b.dnorm)
	ReLUGrad(b.norm, b.dnorm, b.dnorm)
	BatchNormGrad(n, k, hw, b.y, b.dnorm, b.mean, b.invstd, b.gamma, b.dnorm, b.dgamma, b.dbeta, false)
	Conv2DGradBias(&b.conv, b.dnorm, b.db, false)
	Conv2DGradWeight(&b.conv, x, b.dnorm, b.dw, b.scratch, false)
	if input {
		Conv2DGradInput(&b.conv, b.dnorm, b.w, b.dx, b.scratch)
	}
}

// One training step of the MNIST ConvNet's layers at batch 64, without the optimizer.
func BenchmarkConvNetStep(b *testing.B) {
	const n, classes, features = 64, 10, 7 * 7 * 32
	l1, l2 := newConvBlock(n, 1, 28, 16), newConvBlock(n, 16, 14, 32)
	x, fc := random[float32](9, n*28*28), random[float32](10, classes*features)
	logits, dfc, target := make([]float32, n*classes), make([]float32, len(fc)), make([]int32, n)
	scratch := make([]float32, max(GemmScratch(n, classes, features), GemmScratch(classes, features, n), GemmScratch(n, features, classes)))
	for b.Loop() {
		l1.forward(x)
		l2.forward(l1.out)
		Gemm(false, true, n, classes, features, 1, l2.out, features, fc, features, 0, logits, classes, scratch)
		SoftmaxCrossEntropy(n, classes, logits, target, -100, 0, nil, logits, 1.0/n)
		Gemm(true, false, classes, features, n, 1, logits, classes, l2.out, features, 0, dfc, features, scratch)
		Gemm(false, false, n, features, classes, 1, logits, classes, fc, features, 0, l2.dout, features, scratch)
		l2.backward(l1.out, true)
		copy(l1.dout, l2.dx)
		l1.backward(x, false)
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}
