package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// poolTile is a call of the vector kernel of 2×2 max pooling with stride 2: up to
// one vector of outputs in each of some rows. The layout is known to gen/norm/pool.go.
type poolTile struct {
	rows      int
	x         *float32 // first input row
	stride    int      // bytes between input rows
	y         *float32
	idx       *int32
	outStride int         // bytes between rows of y and idx
	lo, hi, n kernel.Mask // lanes of the two input vectors, and of the outputs
	at, w     int         // place of the first input, width of the plane
	evens     *int32

	planes  int // that lie side by side
	factors *NormFactors
}

// NormFactors are those of a plane of a batch norm in front: (x − Mean)·Scale + Shift. The layout is known to gen/norm/pool.go.
type NormFactors struct{ Mean, Scale, Shift float32 }

var evenLanes = [kernel.Block]int32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}

// Halves reports whether the vector kernel fits.
func (p *Shape) Halves() bool {
	return kernel.Current() != kernel.Generic && p.R == 2 && p.S == 2 && p.StrideH == 2 && p.StrideW == 2 &&
		p.PadH == 0 && p.PadW == 0 && p.H/2 == p.OutH() && p.W/2 == p.OutW()
}

// maxPlanesHalving is MaxPlane of planes that lie side by side, for 2×2 windows that do not overlap.
func maxPlanesHalving(p *Shape, planes int, x, y []float32, idx []int32) {
	var t poolTile
	for i, step := 0, p.together(planes); i < planes; i += step {
		t.planes = min(step, planes-i)
		t.run(p, i, x, y, idx)
	}
}

// NormPlanesHalving is the same behind batch norm and ReLU, with factors for each plane.
func NormPlanesHalving(p *Shape, factors []NormFactors, x, y []float32, idx []int32) {
	var t poolTile
	for i, step := 0, p.together(len(factors)); i < len(factors); i += step {
		t.planes, t.factors = min(step, len(factors)-i), &factors[i]
		t.run(p, i, x, y, idx)
	}
}

// together is how many of the planes a kernel takes in one call: none whose last row is left out, and no more than stay in the
// L1 cache from one strip to the next.
func (p *Shape) together(planes int) int {
	const most = 4096
	switch {
	case p.H%2 != 0:
		return 1
	case p.W/2 > kernel.Lanes():
		return max(1, most/(p.H*p.W))
	}
	return planes
}

// run pools planes from number i on in strips of one vector of outputs.
func (t *poolTile) run(p *Shape, i int, x, y []float32, idx []int32) {
	lanes, ow := kernel.Lanes(), p.W/2
	x, y, idx = x[i*p.H*p.W:], y[i*(p.H/2)*ow:], idx[i*(p.H/2)*ow:]
	t.rows, t.stride, t.outStride, t.w, t.evens = p.H/2, 4*p.W, 4*ow, p.W, &evenLanes[0]
	for j := 0; j < ow; j += lanes {
		n := min(lanes, ow-j)
		t.x, t.y, t.idx, t.at = &x[2*j], &y[j], &idx[j], 2*j
		t.lo, t.hi, t.n = kernel.FirstLanes(min(2*n, lanes)), kernel.FirstLanes(max(2*n-lanes, 0)), kernel.FirstLanes(n)
		if t.factors != nil {
			vecNormPool2(t)
		} else {
			vecMaxPool2(t)
		}
	}
}
