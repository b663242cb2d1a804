package pool

// threeTile is a call of the vector kernels for windows of 3×3, which keep in registers what rows of a frame have. Steps are bytes. The
// layout is known to gen/norm/three.go.
type threeTile struct {
	planes, rows  int
	x             *float32
	second, third int // taps of a row, relative to the first
	pitch, phase  int // between lines of a frame, and from one to that before it in the other phase of rows
	xPlane        int
	y             *float32
	yStep, yPlane int // between rows, and between planes
	vectors       int
	starts        *int // of vectors in a row, in bytes
	idx           *int32
	columns       *int32 // where in its row each window begins
	from, line    int    // place at which the first row of windows begins, and between rows of the plane
	factors       *float32
}

// three reports whether kernels for windows of 3×3 pool.
func (o *overlap) three() bool { return o.shape.R == 3 && o.shape.S == 3 && o.shape.StrideH <= 2 }

// threeTile is a call for some rows of windows of planes, all but what they become.
func (o *overlap) threeTile(c *cutRows, plane, planes, rows int, frame, y []float32) threeTile {
	f := &o.forward
	return threeTile{
		planes: planes, rows: rows, x: &frame[f.start+plane*f.lines()*f.pitch], second: f.tap(0, 1), third: f.tap(0, 2), pitch: 4 * f.pitch,
		phase: 4 * (f.rowPhase - f.pitch), xPlane: 4 * f.lines() * f.pitch, y: &y[c.row(plane, 0)*c.width], yStep: 4 * c.width, yPlane: 4 * c.height * c.width,
		vectors: len(o.starts), starts: &o.starts[0],
	}
}

// maxThree writes maxima and their places.
func (o *overlap) maxThree(c *cutRows, plane, planes, rows int, frame, y []float32, idx []int32) {
	p := &o.shape
	t := o.threeTile(c, plane, planes, rows, frame, y)
	t.idx, t.columns, t.from, t.line = &idx[c.row(plane, 0)*c.width], &o.columns[0], (c.from*p.StrideH-p.PadH)*p.W, p.W
	if p.StrideH == 1 {
		vecMaxThree1(o.lanes, &t)
	} else {
		vecMaxThree2(o.lanes, &t)
	}
}

// meanThree writes means.
func (o *overlap) meanThree(c *cutRows, plane, planes, rows int, frame, y []float32) {
	t := o.threeTile(c, plane, planes, rows, frame, y)
	t.factors = &o.factors[c.from*c.width]
	if o.shape.StrideH == 1 {
		vecMeanThree1(o.lanes, &t)
	} else {
		vecMeanThree2(o.lanes, &t)
	}
}

// threeGrads are sums of windows of 3×3 around each pixel, with stride 1.
func (o *overlap) threeGrads(c *cutRows, plane, planes, rows int, frame, dx []float32) {
	f := &o.backward
	vecMeanThree1(o.gradLanes, &threeTile{
		planes: planes, rows: rows, x: &frame[f.start+plane*f.lines()*f.pitch], second: f.tap(0, 1), third: f.tap(0, 2), pitch: 4 * f.pitch,
		xPlane: 4 * f.lines() * f.pitch, y: &dx[c.row(plane, 0)*c.width], yStep: 4 * c.width, yPlane: 4 * c.height * c.width,
		vectors: len(o.ends), starts: &o.ends[0], factors: &o.ones[0],
	})
}

// threeGrad is threeGrads of one row in plain Go.
func (o *overlap) threeGrad(c *cutRows, plane, row int, frame, dx []float32) {
	f, to := &o.backward, dx[c.row(plane, row)*c.width:][:c.width]
	for w := range to {
		to[w] = 0
		for r := range o.shape.R {
			at := f.start + (plane*f.lines()+row+r)*f.pitch + w
			to[w] += windowSum(frame[at:], f.pitch, 0, 1, 0, o.shape.S)
		}
	}
}
