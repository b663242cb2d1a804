package kernel

// poolTile is a call of the vector kernel of 2×2 max pooling with stride 2: up to
// one vector of outputs in each of some rows. The layout is known to gen/pool.go.
type poolTile struct {
	rows      int
	x         *float32 // first input row
	stride    int      // bytes between input rows
	y         *float32
	idx       *int32
	outStride int       // bytes between rows of y and idx
	lo, hi, n laneCount // lanes of the two input vectors, and of the outputs
	at, w     int       // place of the first input, width of the plane
	evens     *int32

	mean, scale, shift float32 // of a batch norm in front
}

var evenLanes = [vectorBlock]int32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}

// halving reports whether the vector kernel fits.
func (p *Pool) halving() bool {
	return level() != Generic && p.R == 2 && p.S == 2 && p.StrideH == 2 && p.StrideW == 2 &&
		p.PadH == 0 && p.PadW == 0 && p.H/2 == p.OutH() && p.W/2 == p.OutW()
}

// maxPoolHalving is maxPoolPlane for 2×2 windows that do not overlap.
func maxPoolHalving(p *Pool, x, y []float32, idx []int32) {
	var t poolTile
	t.plane(p, x, y, idx, false)
}

// normPoolHalving is the same behind batch norm and ReLU.
func normPoolHalving(p *Pool, x []float32, mean, scale, shift float32, y []float32, idx []int32) {
	t := poolTile{mean: mean, scale: scale, shift: shift}
	t.plane(p, x, y, idx, true)
}

// plane pools in strips of one vector of outputs.
func (t *poolTile) plane(p *Pool, x, y []float32, idx []int32, norm bool) {
	lanes, ow := shapes[level()].lanes, p.W/2
	t.rows, t.stride, t.outStride, t.w, t.evens = p.H/2, 4*p.W, 4*ow, p.W, &evenLanes[0]
	for j := 0; j < ow; j += lanes {
		n := min(lanes, ow-j)
		t.x, t.y, t.idx, t.at = &x[2*j], &y[j], &idx[j], 2*j
		t.lo, t.hi, t.n = lanesOf(min(2*n, lanes)), lanesOf(max(2*n-lanes, 0)), lanesOf(n)
		if norm {
			runNormPoolTile(t)
		} else {
			runPoolTile(t)
		}
	}
}
