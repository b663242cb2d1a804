package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// windowTile is a call of the vector kernels for windows of any size and stride: up to one vector
// of outputs in each of some rows. Steps are bytes. The layout is known to gen/norm/windows.go.
type windowTile struct {
	rows           int
	x              *float32 // of a frame: where the first row of outputs begins
	step           int      // between rows of x
	y              *float32
	idx            *int32
	out            int // between rows of y, idx and divisors
	count          int // of taps
	taps           *windowTap
	columns, first *int32 // of each output: the column its window begins at, and the first one inside the plane
	where          *rowAt // of the first row of outputs
	divisors       *float32
	n              kernel.Mask
	low            float32 // -Inf
}

// windowTap is how far a tap lies from the first of its window, in bytes of the frame and in elements of the plane.
type windowTap struct {
	offset int
	place  int32
}

// rowAt is where in the plane the windows of a row of outputs have their first row, and the first one that is inside.
type rowAt struct{ inside, start int32 }

// max is MaxPlane.
func (w *windows) max(x, y []float32, idx []int32, scratch []float32) {
	low := float32(math.Inf(-1))
	w.frame.Fill(x, scratch)
	for _, at := range w.border { // Fill writes zeros behind rows
		scratch[at] = low
	}
	t := windowTile{rows: len(w.rows), step: 4 * w.frame.Width, where: &w.rows[0], low: low}
	t.set(w.taps, w.shape.OutW())
	t.eachStrip(w.shape.OutW(), func(j int) {
		t.x, t.y, t.idx, t.columns, t.first = &scratch[j], &y[j], &idx[j], &w.columns[j], &w.first[j]
		vecMaxWindows(&t)
	})
}

// mean is AvgPool2D of one plane. The frame in scratch is clear.
func (w *windows) mean(x, y, scratch []float32) {
	w.frame.Fill(x, scratch)
	t := windowTile{rows: len(w.rows), step: 4 * w.frame.Width}
	t.set(w.taps, w.shape.OutW())
	t.eachStrip(w.shape.OutW(), func(j int) {
		t.x, t.y, t.divisors = &scratch[j], &y[j], &w.divisors[j]
		vecMeanWindows(&t)
	})
}

// set is for planes of width outputs.
func (t *windowTile) set(taps []windowTap, width int) {
	t.taps, t.count, t.out = &taps[0], len(taps), 4*width
}

// eachStrip calls f for each vector of a row of outputs.
func (t *windowTile) eachStrip(width int, f func(j int)) {
	lanes := kernel.Lanes()
	for j := 0; j < width; j += lanes {
		t.n = kernel.FirstLanes(min(lanes, width-j))
		f(j)
	}
}

// spread is AvgPool2DGrad of one plane. The frame of gradients in scratch is clear.
func (w *windows) spread(dy, dx, scratch []float32) {
	frame, rest := scratch[:w.grad.Elems()], scratch[w.grad.Elems():]
	shares, phases := rest[:w.shares()], rest[w.shares():]
	head := kernel.Head(len(dy))
	if head > 0 {
		vecDivide(&dy[0], &w.divisors[0], &shares[0], head)
	}
	for i := head; i < len(dy); i++ {
		shares[i] = dy[i] / w.divisors[i]
	}
	w.grad.Fill(shares, frame)
	for i := range w.phases {
		w.sumPhase(&w.phases[i], frame, dx, phases)
	}
}

// sumPhase adds up what the outputs give to the pixels of a phase. Column phases of a stride of two
// are joined with the last of them.
func (w *windows) sumPhase(f *gradPhase, frame, dx, phases []float32) {
	p, width := &w.shape, f.w.Pixels
	t := windowTile{rows: f.h.Pixels, step: 4 * w.grad.Width}
	to := dx[f.h.Pixel*p.W:]
	line := p.StrideH * p.W
	if p.StrideW > 1 {
		line = w.phaseWidth()
		to = phases[f.w.Pixel*w.phaseElems():]
	}
	t.set(f.taps, line)
	t.eachStrip(width, func(j int) {
		t.x, t.y = &frame[j], &to[j]
		vecSumWindows(&t)
	})
	if p.StrideW == 1 {
		return
	}
	c := geometry.PlaneCopy{Images: 1, Rows: f.h.Pixels, Src: &phases[0], SrcRow: 4 * line, Odd: 4 * w.phaseElems(), Dst: &dx[f.h.Pixel*p.W], DstRow: 4 * p.StrideH * p.W}
	if p.StrideW > 2 {
		c.Put(to, dx[f.h.Pixel*p.W:], f.w.Pixel, p.W, p.StrideW)
	} else if f.joins {
		c.SetWidth(p.W, 2)
		c.Join()
	}
}

// shares is the elements of the gradients divided by their divisors.
func (w *windows) shares() int { return w.shape.OutH()*w.shape.OutW() + kernel.Block }

// phaseRoom is the elements of all column phases of a stride: with stride 1, sums go to their places.
func (w *windows) phaseRoom() int {
	if w.shape.StrideW == 1 {
		return 0
	}
	return w.shape.StrideW * w.phaseElems()
}

// phaseWidth is the elements between rows of a phase in scratch, phaseElems those between phases.
func (w *windows) phaseWidth() int { return kernel.CeilDiv(w.shape.W, w.shape.StrideW) }

func (w *windows) phaseElems() int {
	return kernel.CeilDiv(w.shape.H, w.shape.StrideH)*w.phaseWidth() + kernel.Block
}
