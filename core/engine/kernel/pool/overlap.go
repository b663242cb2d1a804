package pool

import (
	"math"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// overlap are the tables with which vector kernels pool windows that overlap, have gaps between them or padding. They are only
// read, so that several goroutines may use them.
//
// Planes are copied to a frame, with padding around them, whose rows lie side by side. A tap of all windows is then the frame from some
// element on, and vectors are full however narrow planes are; what they compute beside the rows stays in the frame. As many planes
// as stay in the L1 cache are pooled at once, or a band of rows of a larger one.
type overlap struct {
	shape            Shape
	forward          layout
	backward         layout
	across, down     []pass    // of maxima along the rows, and then down the columns
	sumAcross        []poolTap // of means
	sumDown          []poolTap
	columnTaps       [][]poolTap // of gradients, along a row and down a column for each phase of pixels
	rowTaps          [][]poolTap
	sent             []poolTap // of gradients of maxima, with stride 1
	columns          []int32   // where in its row each window begins
	factors          []float32 // of each output's mean
	ones             []float32 // factors of gradients of means of 3×3 with stride 1
	starts, ends     []int     // of the vectors of a row of outputs, and of gradients (of every second one with a stride of two), in bytes
	lanes, gradLanes int
}

// pass is maxima of some elements each.
type pass struct {
	taps  []poolTap
	reach int // elements that the last tap lies behind the first
}

// poolTap is how far a tap lies from the first, in bytes, and its place in a plane, relative to that of the window.
type poolTap struct {
	offset int
	place  int32
}

// mostSent is how many taps windows may have for vectors to send gradients to their maxima: they compare each.
const mostSent = 40

// newOverlap are the tables for a geometry, nil without vectors or if a window may have nothing but padding.
func newOverlap(p *Shape) *overlap {
	if kernel.Current() == kernel.Generic || 2*p.PadH > p.R || 2*p.PadW > p.S {
		return nil
	}
	o := &overlap{shape: *p, forward: forwardLayout(p), backward: backwardLayout(p), lanes: vectorFor(p.OutW())}
	f := &o.forward
	for _, taps := range passes(p.S, p.StrideW) {
		o.across = append(o.across, newPass(taps, p.StrideW, 1, f.columnPhase, 1))
	}
	for _, taps := range passes(p.R, p.StrideH) {
		o.down = append(o.down, newPass(taps, p.StrideH, f.pitch, f.rowPhase, p.W))
	}
	o.sumAcross, o.sumDown = tapsOf(p.S, func(s int) int { return f.tap(0, s) }), tapsOf(p.R, func(r int) int { return f.tap(r, 0) })
	o.findColumns()
	o.findFactors()
	o.findPhases()
	return o
}

// passes are the taps of an axis, all in one pass, or for wide windows of stride 1 in two: maxima of some taps, and of some of these.
func passes(taps, stride int) [][]int {
	const most = 5
	some := func(n, step int) (at []int) {
		for i := range n {
			at = append(at, i*step)
		}
		return at
	}
	if taps <= most || stride > 1 {
		return [][]int{some(taps, 1)}
	}
	first := int(math.Ceil(math.Sqrt(float64(taps))))
	second := some(kernel.CeilDiv(taps, first), first)
	second[len(second)-1] = taps - first // overlaps
	return [][]int{some(first, 1), second}
}

// newPass is for taps of an axis that a stride has split in phases.
func newPass(taps []int, stride, step, phase, place int) (p pass) {
	for _, t := range taps {
		p.taps = append(p.taps, poolTap{offset: 4 * (t/stride*step + t%stride*phase), place: int32(t * place)})
		p.reach = t / stride * step
	}
	return p
}

func (o *overlap) findColumns() {
	p := &o.shape
	o.columns = make([]int32, p.OutW()+kernel.Block)
	for j := range o.columns {
		o.columns[j] = int32(j*p.StrideW - p.PadW)
	}
	o.starts = inBytes(starts(p.OutW(), o.lanes))
	n := p.W
	if p.StrideW == 2 {
		n = p.W / 2
	}
	o.gradLanes = vectorFor(n)
	o.ends = inBytes(starts(n, o.gradLanes))
}

func inBytes(elems []int) []int {
	for i := range elems {
		elems[i] *= 4
	}
	return elems
}

func (o *overlap) findFactors() {
	p := &o.shape
	o.factors = make([]float32, p.OutH()*p.OutW()+kernel.Block)
	for i := range p.OutH() {
		p.eachWindow(i, func(j, _, _, _, _, count int) { o.factors[i*p.OutW()+j] = 1 / float32(count) })
	}
}

func tapsOf(n int, offset func(int) int) (taps []poolTap) {
	for i := range n {
		taps = append(taps, poolTap{offset: offset(i)})
	}
	return taps
}

// findPhases finds the taps of gradients in the order of the outputs. There are none if no output sees some pixels.
func (o *overlap) findPhases() {
	p, f := &o.shape, &o.backward
	if p.R < p.StrideH || p.S < p.StrideW {
		return
	}
	for at := range p.StrideW {
		first, last := seeing(at, p.S, p.StrideW, p.PadW)
		o.columnTaps = append(o.columnTaps, tapsOf(last-first+1, func(j int) int { return f.tap(0, first+j+f.lead) }))
	}
	for at := range p.StrideH {
		first, last := seeing(at, p.R, p.StrideH, p.PadH)
		o.rowTaps = append(o.rowTaps, tapsOf(last-first+1, func(i int) int { return f.tap(first+i+f.top, 0) }))
	}
	if p.StrideH*p.StrideW > 1 {
		return
	}
	if o.three() {
		o.ones = slices.Repeat([]float32{1}, p.H*p.W+kernel.Block)
	}
	if p.R*p.S > mostSent {
		return
	}
	for i := p.R - 1; i >= 0; i-- { // outputs that come later see a pixel through earlier taps
		for j := p.S - 1; j >= 0; j-- {
			o.sent = append(o.sent, poolTap{offset: f.tap(p.R-1-i, p.S-1-j), place: int32(i*p.W + j)})
		}
	}
}

// phases is how many phases of pixels there are.
func (o *overlap) phases() int { return len(o.rowTaps) * len(o.columnTaps) }

// seeing are the first and the last of the windows of an axis that see pixel at, which is less than the stride.
func seeing(at, taps, stride, pad int) (first, last int) {
	before := taps - 1 - pad - at // pixels before the first one that is seen from there on
	if before < 0 {
		return kernel.CeilDiv(-before, stride), (at + pad) / stride
	}
	return -(before / stride), (at + pad) / stride
}

// placeAt is where place i lies, placesOf those that lie in scratch memory.
func placeAt(places []int32, i int) *float32 { return (*float32)(unsafe.Pointer(&places[i])) }
func placesOf(at *float32) *int32            { return (*int32)(unsafe.Pointer(at)) }
