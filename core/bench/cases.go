package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// kernelCases are the kernels of the models' training steps, created when they are
// measured. Every case has its own memory.
func kernelCases() (cases []func() Kernel) {
	add := func(k func() Kernel) { cases = append(cases, k) }
	for _, s := range []struct{ m, n, k int }{{1024, 1024, 1024}, {64, 512, 784}, {256, 512, 784}, {100, 10, 1568}} {
		add(func() Kernel { return gemmCase("gemm", false, true, s.m, s.n, s.k) })
	}
	for _, s := range [][3]int{{64, 512, 256}, {64, 2048, 2048}, {16, 2000, 2000}} {
		add(func() Kernel { return gemmCase("gemm grad input", false, false, s[0], s[1], s[2]) })
	}
	for _, s := range [][3]int{{512, 784, 64}, {2048, 2048, 64}, {8, 64, 65536}, {512, 128, 8192}, {512, 32, 16384}} {
		add(func() Kernel { return gemmCase("gemm grad weight", true, false, s[0], s[1], s[2]) })
	}
	for _, s := range [][2]int{{8, 64}, {64, 8}} { // a linear layer over the last of several dimensions, from and to few features
		const rows = 8192
		add(func() Kernel { return gemmCase("gemm", false, true, rows, s[1], s[0]) })
		add(func() Kernel { return gemmCase("gemm grad input", false, false, rows, s[0], s[1]) })
		add(func() Kernel { return gemmCase("gemm grad weight", true, false, s[1], s[0], rows) })
	}
	cases = append(cases, convCases(slices.Concat(convolutions, manyShapes))...)
	if kernel.HasBF16() {
		addBF16(add)
	}
	for _, p := range poolings {
		p.Prepare()
		add(func() Kernel { return normPool(p) })
		add(func() Kernel { return normPoolGrad(p) })
	}
	for _, n := range [][3]int{{100, 16, 784}, {32, 64, 1024}, {32, 512, 16}, {64, 128, 49}, {32, 93, 4}, {64, 61, 25}, {64, 256, 1}, {64, 10, 1}} {
		add(func() Kernel { return batchNorm(n[0], n[1], n[2]) })
		add(func() Kernel { return batchNormGrad(n[0], n[1], n[2]) })
	}
	for _, n := range [][2]int{{768, 128}, {4096, 384}, {256, 768}, {4096, 8}, {4096, 13}, {2048, 65}, {1024, 100}} { // of transformers
		add(func() Kernel { return layerNorm(n[0], n[1]) })
		add(func() Kernel { return layerNormGrad(n[0], n[1]) })
		add(func() Kernel { return rmsNorm(n[0], n[1]) })
		add(func() Kernel { return rmsNormGrad(n[0], n[1]) })
	}
	for _, g := range []norm.GroupShape{{N: 32, C: 64, HW: 1024, Groups: 8}, {N: 64, C: 96, HW: 64, Groups: 8}, {N: 64, C: 96, HW: 64, Groups: 96}, {N: 64, C: 128, HW: 16, Groups: 32}} {
		add(func() Kernel { return groupNorm(g) })
		add(func() Kernel { return groupNormGrad(g) })
	}
	for _, n := range []int{64 << 10, 2 << 20} {
		add(func() Kernel { return relu(n) })
		add(func() Kernel { return sum(n) })
	}
	for _, s := range [][2]int{{256, 10}, {768, 65}, {256, 1000}} {
		add(func() Kernel { return crossEntropy(s[0], s[1]) })
	}
	add(func() Kernel { return binaryCrossEntropy(128 * 784) })
	for _, s := range [][4]int{{64, 32, 4, 12}, {256, 64, 6, 4}, {64, 64, 12, 4}} { // of GPT-2's kind: small, middling, the published one
		add(func() Kernel { return attentionCase(s[0], s[1], s[2], s[3]) })
		add(func() Kernel { return attentionGradCase(s[0], s[1], s[2], s[3]) })
	}
	cases = append(cases, poolCases()...)
	const params = 535818 // of the MLP
	add(func() Kernel { return sgd(params) })
	add(func() Kernel { return adam(params) })
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		add(func() Kernel { return reduceCase(d, 256<<10) })
		add(func() Kernel { return reduceCase(d, 25<<20) })
	}
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
		add(func() Kernel { return convertCase(tensor.F32, d, params) })
		add(func() Kernel { return convertCase(d, tensor.F32, params) })
	}
	return cases
}

// convCases are convolutions in each of their directions.
func convCases(shapes []conv.Shape) (cases []func() Kernel) {
	for _, c := range shapes {
		for _, d := range directionsOf(&c) {
			cases = append(cases, func() Kernel { return convCase("conv2d"+d.suffix, c, d) })
		}
	}
	return cases
}

// addBF16 adds products of bfloat16.
func addBF16(add func(func() Kernel)) {
	for _, s := range [][3]int{{1024, 1024, 1024}, {64, 512, 784}, {256, 512, 784}, {100, 10, 1568}} {
		add(func() Kernel { return gemmBF16(s[0], s[1], s[2]) })
	}
	for _, c := range convolutions {
		if conv.FastBF16(&c, conv.ToOutput) {
			add(func() Kernel { return convBF16("bf16 conv2d", c, directions[0], convForwardBF16) })
		}
		if conv.FastBF16(&c, conv.ToWeight) {
			add(func() Kernel { return convBF16("bf16 conv2d grad weight", c, directions[1], convGradWeightBF16) })
		}
		if c.C > 3 && conv.FastBF16(&c, conv.ToInput) {
			add(func() Kernel { return convBF16("bf16 conv2d grad input", c, directions[2], convGradInputBF16) })
		}
	}
}

// convolutions of the ConvNet at batch 100 and of ResNet-18 on 32×32 at batch 32.
var convolutions = []conv.Shape{
	square(100, 1, 28, 16, 5, 1), square(100, 16, 14, 32, 5, 1),
	square(32, 3, 32, 64, 3, 1), square(32, 64, 32, 64, 3, 1), square(32, 128, 16, 128, 3, 1),
	square(32, 256, 8, 256, 3, 1), square(32, 512, 4, 512, 3, 1),
	square(32, 64, 32, 128, 3, 2), square(32, 64, 32, 128, 1, 2),
}

// square is a convolution of square images and filters that keeps the size, or
// divides it by the stride.
func square(n, c, hw, k, r, stride int) conv.Shape {
	return conv.Shape{N: n, C: c, H: hw, W: hw, K: k, R: r, S: r, StrideH: stride, StrideW: stride, PadH: r / 2, PadW: r / 2}
}

var poolings = []pool.Shape{
	{N: 100, C: 16, H: 28, W: 28, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 100, C: 32, H: 14, W: 14, R: 2, S: 2, StrideH: 2, StrideW: 2},
	window(16, 128, 32, 3, 2, 1), window(16, 32, 64, 4, 4, 0),
}

func random(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// zeros are written, because memory that never was is one page of the system's, which stays in the L1 cache.
func zeros(n int) []float32 {
	x := make([]float32, n)
	clear(x)
	return x
}

func ones(n int) []float32 {
	x := make([]float32, n)
	elementwise.Fill(x, 1)
	return x
}

func gemmCase(name string, transA, transB bool, m, n, k int) Kernel {
	a, b, c, scratch := random(m*k), random(k*n), zeros(m*n), zeros(gemm.GemmScratch(m, n, k))
	lda, ldb := k, n
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	return Kernel{
		Name: name, Shape: fmt.Sprintf("%dx%dx%d", m, n, k),
		FLOPs: 2 * int64(m) * int64(n) * int64(k), Bytes: 4 * int64(m*k+k*n+m*n), Written: 4 * int64(m*n),
		Run: func() { gemm.Gemm(transA, transB, m, n, k, 1, a, lda, b, ldb, 0, c, n, scratch) },
	}
}

// A convDirection runs a convolution or one of its gradients.
type convDirection func(p *conv.Shape, x, w, y, scratch []float32)

func convForward(p *conv.Shape, x, w, y, scratch []float32) {
	conv.Forward(p, x, w, nil, y, scratch)
}

func convGradInput(p *conv.Shape, x, w, y, scratch []float32) {
	conv.GradInput(p, y, w, x, scratch)
}

func convGradWeight(p *conv.Shape, x, w, y, scratch []float32) {
	conv.GradWeight(p, x, y, w, scratch, false)
}

// direction is which result of a convolution a case computes.
type direction struct {
	conv.Direction
	suffix string // of the case's name
	run    convDirection
}

var directions = []direction{
	{conv.ToOutput, "", convForward}, {conv.ToWeight, " grad weight", convGradWeight}, {conv.ToInput, " grad input", convGradInput},
}

// result is what the direction writes.
func (d *direction) result(x, w, y []float32) []float32 {
	switch d.Direction {
	case conv.ToInput:
		return x
	case conv.ToWeight:
		return w
	}
	return y
}

// directionsOf are those of a training step: the first layer of a model, which sees
// images, has no gradient for its input.
func directionsOf(p *conv.Shape) []direction {
	if p.C > 3 {
		return directions
	}
	return directions[:2]
}

func convCase(name string, p conv.Shape, d direction) Kernel {
	patch := p.C / max(1, p.Groups) * p.R * p.S
	x, w, y := random(p.N*p.C*p.H*p.W), random(p.K*patch), random(p.N*p.K*p.OutH()*p.OutW())
	scratch := zeros(conv.Scratch[float32](&p))
	return Kernel{
		Name: name, Shape: p.String(),
		FLOPs: 2 * int64(len(y)) * int64(patch), Bytes: 4 * int64(len(x)+len(w)+len(y)),
		Written: 4 * int64(len(d.result(x, w, y))), Run: func() { d.run(&p, x, w, y, scratch) },
	}
}

func halves(n int) []uint16 {
	x := make([]uint16, n)
	convert.Convert(tensor.BF16, tensor.Bytes(x), tensor.F32, tensor.Bytes(random(n)))
	return x
}

func gemmBF16(m, n, k int) Kernel {
	a, b, c, scratch := halves(m*k), halves(k*n), make([]uint16, m*n), zeros(gemm.GemmBF16RoundedScratch(m, n, k))
	return Kernel{
		Name: "bf16 gemm", Shape: fmt.Sprintf("%dx%dx%d", m, n, k), DType: tensor.BF16,
		FLOPs: 2 * int64(m) * int64(n) * int64(k), Bytes: 2 * int64(m*k+k*n+m*n), Written: 2 * int64(m*n),
		Run: func() {
			gemm.GemmBF16Rounded(false, true, m, n, k, a, k, b, k, c, n, gemm.FinishBF16{}, scratch)
		},
	}
}

// A convDirectionBF16 is a convDirection on bfloat16; sum holds a weight gradient.
type convDirectionBF16 func(p *conv.Shape, x, w, y []uint16, sum, scratch []float32)

func convForwardBF16(p *conv.Shape, x, w, y []uint16, _, scratch []float32) {
	conv.ForwardBF16(p, x, w, nil, y, scratch)
}

func convGradInputBF16(p *conv.Shape, x, w, y []uint16, _, scratch []float32) {
	conv.GradInputBF16(p, y, w, x, scratch)
}

func convGradWeightBF16(p *conv.Shape, x, _, y []uint16, sum, scratch []float32) {
	conv.GradWeightBF16(p, x, y, sum, scratch, false)
}

func convBF16(name string, p conv.Shape, d direction, run convDirectionBF16) Kernel {
	x, w, y := halves(p.N*p.C*p.H*p.W), halves(p.K*p.C*p.R*p.S), halves(p.N*p.K*p.OutH()*p.OutW())
	sum, scratch := zeros(len(w)), zeros(conv.BF16Scratch(&p))
	k := convCase(name, p, d)
	k.DType, k.Bytes, k.Written, k.Run = tensor.BF16, k.Bytes/2, k.Written/2, func() { run(&p, x, w, y, sum, scratch) }
	return k
}

func relu(n int) Kernel {
	x, y := random(n), zeros(n)
	return Kernel{Name: "relu", Shape: fmt.Sprint(n), FLOPs: int64(n), Bytes: 8 * int64(n), Written: 4 * int64(n), Run: func() { elementwise.ReLU(x, y) }}
}

func sum(n int) Kernel {
	x, y := random(n), zeros(n)
	return Kernel{Name: "add", Shape: fmt.Sprint(n), FLOPs: int64(n), Bytes: 12 * int64(n), Written: 4 * int64(n), Run: func() { elementwise.AddTo(y, x) }}
}

func crossEntropy(rows, classes int) Kernel {
	const exponential, around = 25, 8 // operations of an element as the kernels compute it: multiplications and additions that are no pairs
	x, dx, target := random(rows*classes), zeros(rows*classes), make([]int32, rows)
	return Kernel{
		Name: "cross entropy with gradient", Shape: fmt.Sprintf("%dx%d", rows, classes), FLOPs: (exponential + around) * int64(len(x)), Bytes: 8 * int64(len(x)), Written: 4 * int64(len(x)),
		Run: func() { loss.SoftmaxCrossEntropy(rows, classes, x, target, loss.Criterion{Ignore: -100}, nil, dx, 1) },
	}
}

func binaryCrossEntropy(n int) Kernel {
	const operations = 45 // of an element as the kernels compute it
	x, target, dx := random(n), zeros(n), zeros(n)
	return Kernel{
		Name: "binary cross entropy with gradient", Shape: fmt.Sprint(n), FLOPs: operations * int64(n), Bytes: 12 * int64(n), Written: 4 * int64(n),
		Run: func() { loss.BCEWithLogits(x, target, dx, 1) },
	}
}

func sgd(n int) Kernel {
	p, g, buf := random(n), random(n), zeros(n)
	return Kernel{
		Name: "sgd with momentum", Shape: fmt.Sprint(n), FLOPs: 4 * int64(n), Bytes: 20 * int64(n), Written: 8 * int64(n),
		Run: func() { optimizer.SGDUpdate(p, g, buf, 1e-6, 0.9, 0, 0, false, false, false) },
	}
}

func adam(n int) Kernel {
	p, g, m, v := random(n), random(n), zeros(n), zeros(n)
	return Kernel{
		Name: "adam", Shape: fmt.Sprint(n), FLOPs: 12 * int64(n), Bytes: 28 * int64(n), Written: 12 * int64(n),
		Run: func() { optimizer.AdamUpdate(p, g, m, v, nil, 1e-6, 0.9, 0.999, 1e-8, 0, 10, false, false) },
	}
}

// reduceCase adds two buffers of size bytes, as a backend does for two ranks.
func reduceCase(d tensor.DType, size int) Kernel {
	a, b := tensor.Bytes(zeros(size/4)), tensor.Bytes(zeros(size/4))
	elems := int64(size / d.Size())
	return Kernel{
		Name: "reduce " + d.String(), Shape: fmt.Sprintf("2 of %d", elems), FLOPs: elems, Bytes: 3 * int64(size), Written: int64(size),
		Run: func() { reduce.ReduceN(reduce.Sum, d, a, [][]byte{a, b}, 1) },
	}
}

func convertCase(from, to tensor.DType, n int) Kernel {
	src, dst := tensor.Bytes(zeros(n))[:n*from.Size()], make([]byte, n*to.Size())
	return Kernel{
		Name: fmt.Sprintf("convert %v to %v", from, to), Shape: fmt.Sprint(n), Bytes: int64(len(src) + len(dst)), Written: int64(len(dst)),
		Run: func() { convert.Convert(to, dst, from, src) },
	}
}
