package kernel_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
)

// convBlock is convolution, batch norm, ReLU and 2×2 max pooling with their gradients.
type convBlock struct {
	conv                                   conv.Shape
	pool                                   pool.Shape
	w, bias, dw, db                        []float32
	gamma, beta, mean, variance, invstd    []float32
	dgamma, dbeta                          []float32
	y, norm, out, dout, dnorm, dx, scratch []float32
	idx                                    []int32
}

func newConvBlock(n, c, hw, k int) *convBlock {
	c2d := conv.Shape{N: n, C: c, H: hw, W: hw, K: k, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2}
	window := pool.Shape{N: n, C: k, H: hw, W: hw, R: 2, S: 2, StrideH: 2, StrideW: 2}
	weights, out := k*c*c2d.R*c2d.S, n*k*hw*hw
	zeros := func(n int) []float32 { return make([]float32, n) }
	b := &convBlock{
		conv: c2d, pool: window, w: kerneltest.Random[float32](1, weights), bias: kerneltest.Random[float32](2, k), dw: zeros(weights), db: zeros(k),
		gamma: kerneltest.Random[float32](3, k), beta: kerneltest.Random[float32](4, k), mean: zeros(k), variance: zeros(k), invstd: zeros(k),
		dgamma: zeros(k), dbeta: zeros(k), y: zeros(out), norm: zeros(out), out: zeros(out / 4), dout: zeros(out / 4),
		dnorm: zeros(out), dx: zeros(n * c * hw * hw), scratch: zeros(conv.Scratch[float32](&c2d)), idx: make([]int32, out/4),
	}
	elementwise.Fill(b.invstd, 1)
	return b
}

func (b *convBlock) forward(x []float32) {
	n, k, hw := b.conv.N, b.conv.K, b.conv.H*b.conv.W
	conv.Forward(&b.conv, x, b.w, b.bias, b.y, b.scratch)
	norm.BatchNormStats(n, k, hw, b.y, b.mean, b.variance)
	norm.BatchNormApply(n, k, hw, b.y, b.mean, b.invstd, b.gamma, b.beta, b.norm)
	elementwise.ReLU(b.norm, b.norm)
	pool.MaxPool2D(&b.pool, b.norm, b.out, b.idx, nil)
}

func (b *convBlock) backward(x []float32, input bool) {
	n, k, hw := b.conv.N, b.conv.K, b.conv.H*b.conv.W
	pool.MaxPool2DGrad(&b.pool, b.dout, b.idx, b.dnorm, nil)
	elementwise.ReLUGrad(b.norm, b.dnorm, b.dnorm)
	norm.BatchNormGrad(n, k, hw, b.y, b.dnorm, b.mean, b.invstd, b.gamma, b.dnorm, b.dgamma, b.dbeta, false)
	conv.GradBias(&b.conv, b.dnorm, b.db, false)
	conv.GradWeight(&b.conv, x, b.dnorm, b.dw, b.scratch, false)
	if input {
		conv.GradInput(&b.conv, b.dnorm, b.w, b.dx, b.scratch)
	}
}

// One training step of the MNIST ConvNet's layers at batch 64, without the optimizer.
func BenchmarkConvNetStep(b *testing.B) {
	const n, classes, features = 64, 10, 7 * 7 * 32
	l1, l2 := newConvBlock(n, 1, 28, 16), newConvBlock(n, 16, 14, 32)
	x, fc := kerneltest.Random[float32](9, n*28*28), kerneltest.Random[float32](10, classes*features)
	logits, dfc, target := make([]float32, n*classes), make([]float32, len(fc)), make([]int32, n)
	scratch := make([]float32, max(gemm.GemmScratch(n, classes, features), gemm.GemmScratch(classes, features, n), gemm.GemmScratch(n, features, classes)))
	for b.Loop() {
		l1.forward(x)
		l2.forward(l1.out)
		gemm.Gemm(false, true, n, classes, features, 1, l2.out, features, fc, features, 0, logits, classes, scratch)
		loss.SoftmaxCrossEntropy(n, classes, logits, target, loss.Criterion{Ignore: -100}, nil, logits, 1.0/n)
		gemm.Gemm(true, false, classes, features, n, 1, logits, classes, l2.out, features, 0, dfc, features, scratch)
		gemm.Gemm(false, false, n, features, classes, 1, logits, classes, fc, features, 0, l2.dout, features, scratch)
		l2.backward(l1.out, true)
		copy(l1.dout, l2.dx)
		l1.backward(x, false)
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}
