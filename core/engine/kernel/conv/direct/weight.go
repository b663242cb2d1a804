package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// takesWeight reports whether the weight gradient is computed directly: where
// rows fill half of a vector, since lanes beyond a row's end do nothing.
func takesWeight(p *geometry.Shape) bool {
	if !p.FitsFrame() {
		return false
	}
	const lanes = 8
	return 2*p.OutW() >= lanes && p.OutH()*p.OutW() >= lanes // of which kernels read whole vectors
}

// stepElems is the room that the steps of one image take in a scratch of float32.
func stepElems(p *geometry.Shape) int {
	const perStep = int(unsafe.Sizeof(dotStep{}) / 4)
	return p.OutH() * ((p.OutW() + 7) / 8) * perStep
}

// Bounds of what a weight gradient works on at once: framed images stay in L2, and in L1 the rows of dy of a tile, and the
// plane that it sees through one tap after the other.
const (
	gradBatchElems = 1 << 16
	nearElems      = 14 << 10
)

// gradBatch is how many images the weight gradient keeps framed at a time.
func gradBatch(p *geometry.Shape) int {
	f := p.InputFrame()
	near := nearElems / (f.Plane + maxDotRows*p.OutH()*p.OutW())
	return max(1, min(p.N, gradBatchElems/f.Elems(), near))
}

// weightCall is the weight gradient of one group over a batch of framed images.
type weightCall struct {
	dotShape
	p       *geometry.Shape
	images  []float32
	taps    []int32 // place of each tap's first element in the frame
	steps   []dotStep
	whole   int // of these, the first ones
	filters int
	dw      []float32
	add     bool
	sums    *[maxDotRows * maxDotCols]float32
}

// weightScratch has room for the taps, and for a batch of framed images and their steps.
func weightScratch(p *geometry.Shape) int {
	if takesFilters(p, geometry.ToWeight) {
		f := newFilters(p, geometry.ToWeight)
		return f.scratch(geometry.ToWeight)
	}
	if q, ok := mirror(p); ok {
		return mirroredElems(&q) + ownWeightScratch(&q)
	}
	return ownWeightScratch(p)
}

func ownWeightScratch(p *geometry.Shape) int {
	if takesViews(p) {
		c := newViewCall(p)
		return c.scratch()
	}
	f := p.InputFrame()
	return p.PatchSize() + gradBatch(p)*(f.Elems()+stepElems(p))
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	if takesFilters(p, geometry.ToWeight) {
		gradWeightByFilters(p, x, dy, dw, scratch, accumulate)
		return
	}
	if q, ok := mirror(p); ok {
		gradWeightMirrored(p, &q, x, dy, dw, scratch, accumulate)
		return
	}
	gradWeight(p, x, dy, dw, scratch, accumulate)
}

// gradWeight is GradWeight of p itself.
func gradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	if takesViews(p) {
		gradWeightByViews(p, x, dy, dw, scratch, accumulate)
		return
	}
	f, kg, batch := p.InputFrame(), p.K/p.GroupCount(), gradBatch(p)
	var sums [maxDotRows * maxDotCols]float32
	c := weightCall{dotShape: dotShapeOf(p, kg), p: p, filters: kg, sums: &sums}
	room := c.setTaps(f, scratch)
	c.images, room = room[:batch*f.Elems()], room[batch*f.Elems():]
	clear(c.images)
	for i := range p.GroupCount() {
		c.dw = dw[i*kg*p.PatchSize():][:kg*p.PatchSize()]
		for n := 0; n < p.N; n += batch {
			count := min(batch, p.N-n)
			for b := range count {
				f.Fill(x[((n+b)*p.C+i*f.Channels)*p.H*p.W:], c.images[b*f.Elems():])
			}
			c.setSteps(f, count, room)
			c.add = accumulate || n > 0
			c.run(dy[(n*p.K+i*kg)*p.OutH()*p.OutW():])
		}
	}
}

// setTaps takes the table of taps from scratch, and gives back the rest.
func (c *weightCall) setTaps(f geometry.Frame, scratch []float32) []float32 {
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), c.p.PatchSize())
	for i := range c.taps {
		rs := c.p.R * c.p.S
		ch, r, s := i/rs, i%rs/c.p.S, i%c.p.S
		c.taps[i] = int32(ch*f.Plane + f.At(r*c.p.DilationH(), s*c.p.DilationW()))
	}
	return scratch[len(c.taps):]
}

// setSteps lists the vectors of output pixels of count images: first those that are whole. A vector of fewer pixels begins so
// that it ends with the row, or at the plane's beginning, because AVX2's kernels read it whole. The list depends on nothing but count.
func (c *weightCall) setSteps(f geometry.Frame, count int, room []float32) {
	oh, ow := c.p.OutH(), c.p.OutW()
	whole, perRow, rows := ow/c.lanes, kernel.CeilDiv(ow, c.lanes), count*oh
	if len(c.steps) == rows*perRow {
		return // those of the batch before
	}
	c.whole = rows * whole
	c.steps = unsafe.Slice((*dotStep)(unsafe.Pointer(&room[0])), rows*perRow)
	for i := range c.steps {
		line, v := i/max(1, whole), i%max(1, whole)
		if i >= c.whole {
			line, v = i-c.whole, whole
		}
		b, row, col := line/oh, line%oh, v*c.lanes
		pixels := min(c.lanes, ow-col)
		mask := gemm.TileOf(c.lanes).Mask(pixels)
		if before := c.lanes - pixels; before > 0 && c.lanes < kernel.Block && kernel.Current() != kernel.NEON && (row > 0 || col > 0) {
			col -= before
			mask = kernel.LastOfEight(pixels)
		}
		c.steps[i] = dotStep{
			dy:    int32(4 * (b*c.p.K*oh*ow + row*ow + col)),
			x:     int32(4 * (b*f.Elems() + row*f.Width + col)),
			lanes: mask,
		}
	}
}

// run computes dw tile by tile. The last tiles of either direction overlap those
// before them, and leave what is done already.
func (c *weightCall) run(dy []float32) {
	plane, taps := c.p.OutH()*c.p.OutW(), c.p.PatchSize()
	t := dotTile{whole: c.whole, count: len(c.steps) - c.whole, steps: &c.steps[0], stride: 4 * plane, out: &c.sums[0]}
	height := c.rows
	if c.filters < height {
		height, t.stride = 1, 0
	}
	for k := 0; k < c.filters; k += height {
		first := min(k, c.filters-height)
		t.dy = &dy[first*plane]
		for tap := 0; tap < taps; tap += c.cols {
			for j := range c.cols {
				t.x[j] = &c.images[c.taps[min(tap+j, taps-1)]]
			}
			runDotTile(c.dotShape, &t)
			c.store(first, k, min(k+height, c.filters), tap)
		}
	}
}

// store puts the sums of filters [from, to) into dw; the tile starts at filter first.
func (c *weightCall) store(first, from, to, tap int) {
	taps := c.p.PatchSize()
	for k := from; k < to; k++ {
		sums := c.sums[(k-first)*c.cols:][:min(c.cols, taps-tap)]
		row := c.dw[k*taps+tap:][:len(sums)]
		for j, v := range sums {
			if c.add {
				v += row[j]
			}
			row[j] = v
		}
	}
}
