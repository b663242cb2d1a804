package bench

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
)

// pools are windows as networks pool with: halves of LeNet, overlapping ones of ResNet, Inception and AlexNet, and a row of sound.
var pools = []pool.Shape{
	window(64, 6, 28, 2, 2, 0), window(64, 16, 10, 2, 2, 0), window(16, 256, 8, 2, 2, 0), window(16, 64, 33, 3, 3, 0),
	window(16, 64, 56, 3, 2, 1), window(16, 192, 14, 3, 1, 1), window(16, 64, 27, 3, 2, 0), window(64, 256, 8, 8, 8, 0),
	{N: 16, C: 128, H: 1, W: 1000, R: 1, S: 4, StrideH: 1, StrideW: 4},
}

// window is a pooling of square images by square windows.
func window(n, c, hw, r, stride, pad int) pool.Shape {
	return pool.Shape{N: n, C: c, H: hw, W: hw, R: r, S: r, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad}
}

func windowShape(p *pool.Shape) string {
	return fmt.Sprintf("%dx%dx%dx%d, %dx%d of stride %d", p.N, p.C, p.H, p.W, p.R, p.S, p.StrideW)
}

// poolCases are pooling by windows and their means' and maxima's gradients.
func poolCases() (cases []func() Kernel) {
	for _, p := range pools {
		p.Prepare()
		cases = append(cases, func() Kernel { return meanPool(p) }, func() Kernel { return meanPoolGrad(p) }, func() Kernel { return maxPool(p) }, func() Kernel { return maxPoolGrad(p) })
	}
	for _, s := range [][5]int{{16, 256, 13, 6, 6}, {16, 512, 7, 3, 3}, {64, 1280, 7, 1, 1}} { // of AlexNet and VGG, and the mean of a whole image
		cases = append(cases, func() Kernel { return adaptivePool(s[0], s[1], s[2], s[3], s[4]) }, func() Kernel { return adaptivePoolGrad(s[0], s[1], s[2], s[3], s[4]) })
	}
	return cases
}

// pooling is a case whose outputs have so many tensors.
func pooling(name string, p pool.Shape, tensors int, grad bool, run func(x, y []float32)) Kernel {
	x, y := random(p.N*p.C*p.H*p.W), random(p.N*p.C*p.OutH()*p.OutW())
	written := tensors * len(y)
	if grad {
		written = len(x)
	}
	return Kernel{
		Name: name, Shape: windowShape(&p),
		Bytes: 4 * int64(len(x)+tensors*len(y)), Written: 4 * int64(written), Run: func() { run(x, y) },
	}
}

func meanPool(p pool.Shape) Kernel {
	scratch := zeros(p.Scratch())
	return pooling("average pool", p, 1, false, func(x, y []float32) { pool.AvgPool2D(&p, x, y, scratch) })
}

func meanPoolGrad(p pool.Shape) Kernel {
	scratch := zeros(p.GradScratch())
	return pooling("average pool grad", p, 1, true, func(dx, dy []float32) { pool.AvgPool2DGrad(&p, dy, dx, scratch) })
}

func maxPool(p pool.Shape) Kernel {
	idx, scratch := make([]int32, p.N*p.C*p.OutH()*p.OutW()), zeros(p.MaxScratch())
	return pooling("max pool", p, 2, false, func(x, y []float32) { pool.MaxPool2D(&p, x, y, idx, scratch) })
}

func maxPoolGrad(p pool.Shape) Kernel {
	idx := make([]int32, p.N*p.C*p.OutH()*p.OutW())
	pool.MaxPool2D(&p, random(p.N*p.C*p.H*p.W), zeros(len(idx)), idx, zeros(p.MaxScratch()))
	scratch := zeros(p.MaxGradScratch())
	return pooling("max pool grad", p, 2, true, func(dx, dy []float32) { pool.MaxPool2DGrad(&p, dy, idx, dx, scratch) })
}

// adaptiveCase is average pooling of square images to oh×ow.
func adaptiveCase(name string, n, c, hw, oh, ow, written int, run func()) Kernel {
	in, out := n*c*hw*hw, n*c*oh*ow
	return Kernel{Name: name, Shape: fmt.Sprintf("%dx%dx%dx%d to %dx%d", n, c, hw, hw, oh, ow), FLOPs: int64(in), Bytes: 4 * int64(in+out), Written: 4 * int64(written), Run: run}
}

func adaptivePool(n, c, hw, oh, ow int) Kernel {
	x, y, scratch := random(n*c*hw*hw), zeros(n*c*oh*ow), zeros(adaptive.Scratch(hw, hw, oh, ow))
	return adaptiveCase("adaptive average pool", n, c, hw, oh, ow, len(y), func() { adaptive.AvgPool2D(n, c, hw, hw, oh, ow, x, y, scratch) })
}

func adaptivePoolGrad(n, c, hw, oh, ow int) Kernel {
	dx, dy, scratch := zeros(n*c*hw*hw), random(n*c*oh*ow), zeros(adaptive.Scratch(hw, hw, oh, ow))
	return adaptiveCase("adaptive average pool grad", n, c, hw, oh, ow, len(dx), func() { adaptive.AvgPool2DGrad(n, c, hw, hw, oh, ow, dy, dx, scratch) })
}
