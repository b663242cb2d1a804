package fours

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Fours is such a convolution. A plane is two vectors, which have two rows each. What a filter's row sees of a plane is read from memory, as rows are half a vector;
// columns move within halves, where the shift brings in the zeros of the padding. What moves is the sums of each column of the filter, or dy for weight gradients.
type Fours struct {
	p    geometry.Shape // a copy, so that the caller's stays on its stack
	taps int
}

// fourPlanes is a call of these kernels: the same planes of some images, whose x and y have the same layout. Steps are bytes. The layout is known to gen/conv/fours.go.
type fourPlanes struct {
	planes, images int
	x, y           *float32
	image          int
	weights        *float32 // [planes][taps]
	bias           *float32
	biasPlane      int
	sums           *float32 // [planes][taps][lanes]
}

const (
	side   = 4 // rows and columns of a plane
	pixels = side * side
	lanes  = 8
	most   = 4 // images of a call: few enough for as many lines of x and of y to stay in one set of the L1 cache, which they share where images are 4 KiB apart
)

// Of is the convolution of p, if it can be computed so.
func Of(p *geometry.Shape) (f Fours, ok bool) {
	f.p, f.taps = *p, p.R*p.S
	same := p.R == p.S && (p.R == 3 || p.R == 5) && p.PadH == p.R/2 && p.PadW == p.R/2 && p.DilationH() == 1 && p.DilationW() == 1
	return f, same && p.Depthwise() && p.K == p.C && p.H == side && p.W == side && p.StrideH == 1 && p.StrideW == 1
}

// Scratch is the number of scratch elements that a direction needs.
func (f *Fours) Scratch(d geometry.Direction) int {
	if d != geometry.ToWeight {
		return 0
	}
	return f.p.C * f.taps * (lanes + 1)
}

// eachCall calls run for all images, some at a time.
func (f *Fours) eachCall(x, y []float32, t fourPlanes, run func(*fourPlanes)) {
	image := f.p.C * pixels
	t.planes, t.image = f.p.C, 4*image
	for n := 0; n < f.p.N; n += most {
		t.images, t.x, t.y = min(most, f.p.N-n), &x[n*image], &y[n*image]
		run(&t)
	}
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func (f *Fours) Forward(x, w, bias, y []float32) {
	var zero float32
	t := fourPlanes{weights: &w[0], bias: &zero}
	if bias != nil {
		t.bias, t.biasPlane = &bias[0], 4
	}
	if f.p.R == 3 {
		f.eachCall(x, y, t, vecFoursForward3)
		return
	}
	f.eachCall(x, y, t, vecFoursForward5)
}

// GradInput computes the gradient of x from dy and w, and overwrites dx.
func (f *Fours) GradInput(dy, w, dx []float32) {
	t := fourPlanes{weights: &w[0]}
	if f.p.R == 3 {
		f.eachCall(dy, dx, t, vecFoursGrad3)
		return
	}
	f.eachCall(dy, dx, t, vecFoursGrad5)
}

// WeightSums is the gradient of the weights, [K][R][S], in scratch. Sums are no numbers if x or dy has elements that are none.
func (f *Fours) WeightSums(x, dy, scratch []float32) []float32 {
	n := f.p.C * f.taps
	vectors, sums := scratch[:n*lanes], scratch[n*lanes:][:n]
	clear(vectors)
	t := fourPlanes{sums: &vectors[0]}
	if f.p.R == 3 {
		f.eachCall(x, dy, t, vecFoursDots3)
	} else {
		f.eachCall(x, dy, t, vecFoursDots5)
	}
	geometry.LaneSums(lanes, vectors, sums)
	return sums
}

// Work is how many vectors of 512 bits the products of a direction have, and the runs of images of a plane.
func (f *Fours) Work() (products, runs float64) {
	planes := float64(f.p.N * f.p.C)
	return planes * float64(f.taps) * pixels / kernel.Block, float64(kernel.CeilDiv(f.p.N, most) * f.p.C)
}
