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

	mean, scale, shift float32 // of a batch norm in front
}

var evenLanes = [kernel.Block]int32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}

// Halves reports whether the vector kernel fits.
func (p *Shape) Halves() bool {
	return kernel.Current() != kernel.Generic && p.R == 2 && p.S == 2 && p.StrideH == 2 && p.StrideW == 2 &&
		p.PadH == 0 && p.PadW == 0 && p.H/2 == p.OutH() && p.W/2 == p.OutW()
}

// MaxPlaneHalving is MaxPlane for 2×2 windows that do not overlap.
func MaxPlaneHalving(p *Shape, x, y []float32, idx []int32) {
	var t poolTile
	t.plane(p, x, y, idx, false)
}

// NormPlaneHalving is the same behind batch norm and ReLU.
func NormPlaneHalving(p *Shape, x []float32, mean, scale, shift float32, y []float32, idx []int32) {
	t := poolTile{mean: mean, scale: scale, shift: shift}
	t.plane(p, x, y, idx, true)
}

// plane pools in strips of one vector of outputs.
func (t *poolTile) plane(p *Shape, x, y []float32, idx []int32, norm bool) {
	lanes, ow := kernel.Lanes(), p.W/2
	t.rows, t.stride, t.outStride, t.w, t.evens = p.H/2, 4*p.W, 4*ow, p.W, &evenLanes[0]
	for j := 0; j < ow; j += lanes {
		n := min(lanes, ow-j)
		t.x, t.y, t.idx, t.at = &x[2*j], &y[j], &idx[j], 2*j
		t.lo, t.hi, t.n = kernel.FirstLanes(min(2*n, lanes)), kernel.FirstLanes(max(2*n-lanes, 0)), kernel.FirstLanes(n)
		if norm {
			vecNormPool2(t)
		} else {
			vecMaxPool2(t)
		}
	}
}
