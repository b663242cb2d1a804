package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// layout is how planes lie in a frame: the rows of each phase of a stride, and in it those of all planes, in the same way for each phase
// of columns.
type layout struct {
	h, w, strideH, strideW int         // of the planes
	pitch, lead, top       int         // elements between lines, columns before the first one, and rows
	start                  int         // where the first line begins: rows of planes begin at whole cache lines
	units                  int         // rows of what is computed
	extra                  int         // lines that a band has besides those it computes
	planes, rows           int         // of a band
	rowPhase, columnPhase  int         // elements between phases
	vectors                int         // whole ones of a row; at least one element is left
	lo, hi                 kernel.Mask // of what is left, in one vector, or in two for a stride of two
	low, none              tails       // -Inf and all bits behind it
}

// tails are the last vectors of a row, for each phase of columns, in which what is not padding is zero.
type tails [2][kernel.Block]float32

var zeros tails

// findTails is for rows that a stride of one or two splits.
func (f *layout) findTails() {
	lanes := kernel.Lanes()
	f.vectors = (f.w - 1) / (f.strideW * lanes)
	n := f.w - f.vectors*f.strideW*lanes
	f.lo, f.hi = kernel.FirstLanes(min(n, lanes)), kernel.FirstLanes(min(max(n-lanes, 0), lanes))
	for phase := range f.low {
		for i := kernel.CeilDiv(max(n-phase, 0), f.strideW); i < lanes; i++ {
			f.low[phase][i], f.none[phase][i] = low, noTap
		}
	}
}

// low is below all numbers, and noTap a place that none has.
var low, noTap = float32(math.Inf(-1)), math.Float32frombits(math.MaxUint32)

// slack is what kernels may read or write behind an array.
const slack = 10 * kernel.Block

// setBands chooses bands whose lines take so many elements for each of the pitch.
func (f *layout) setBands(planes, elems int) {
	const room, fewest = 8 << 10, 8 // elements of an L1 cache, and rows that are worth reading those beyond them
	f.pitch = alignedPitch(f.pitch)
	f.start = kernel.CeilDiv(f.lead, f.strideW*kernel.Block)*kernel.Block - kernel.CeilDiv(f.lead, f.strideW)
	line := f.pitch * elems
	f.rows, f.planes = f.units, min(planes, max(1, room/(line*(f.units+f.extra))))
	if line*(f.units+f.extra) > room {
		f.rows = min(f.units, max(room/line-f.extra, fewest))
	}
	f.rowPhase = f.planes*f.lines()*f.pitch + kernel.Block // the last vector of a row may reach behind it
	f.findTails()
	f.columnPhase = kernel.CeilDiv(f.strideH*f.rowPhase+slack, kernel.Block)*kernel.Block + f.lead%f.strideW
}

// alignedPitch is pitch or a little more, so that columns are as aligned in each line as in the first.
func alignedPitch(pitch int) int {
	for lanes := kernel.Lanes(); lanes >= kernel.Block/2; lanes /= 2 {
		if aligned := kernel.CeilDiv(pitch, lanes) * lanes; 4*aligned <= 5*pitch {
			return aligned
		}
	}
	return pitch
}

// lines is how many a phase has of a plane.
func (f *layout) lines() int { return f.rows + f.extra }

// elems is the size of a frame.
func (f *layout) elems() int {
	return kernel.CeilDiv(f.strideW*f.columnPhase, kernel.Block) * kernel.Block
}

// part is the size of what is computed for a phase of columns.
func (f *layout) part() int { return kernel.CeilDiv(f.columnPhase, kernel.Block) * kernel.Block }

// cut is a frame in scratch memory, and what is left of it. Both begin at a cache line.
func (f *layout) cut(scratch []float32) (frame, rest []float32) {
	scratch = geometry.Aligned(scratch)
	return scratch[:f.elems()], scratch[f.elems():]
}

// tap is how far row r and column s lie from the first, in bytes.
func (f *layout) tap(r, s int) int {
	return 4 * (r%f.strideH*f.rowPhase + r/f.strideH*f.pitch + s%f.strideW*f.columnPhase + s/f.strideW)
}

// forwardLayout is of what is pooled. Padding behind a row is that before the next one.
func forwardLayout(p *Shape) layout {
	f := layout{
		h: p.H, w: p.W, strideH: p.StrideH, strideW: p.StrideW, lead: p.PadW, top: p.PadH, units: p.OutH(), extra: (p.R - 1) / p.StrideH,
		pitch: kernel.CeilDiv(max(p.W+p.PadW, (p.OutW()-1)*p.StrideW+p.S-p.PadW), p.StrideW),
	}
	f.setBands(p.N*p.C, p.StrideH*(p.StrideW+2))
	return f
}

// backwardLayout is of the gradients of outputs. Bands are of gradients of inputs.
func backwardLayout(p *Shape) layout {
	firstRow, lastRow := seeing(0, p.R, p.StrideH, p.PadH)
	firstColumn, lastColumn := seeing(0, p.S, p.StrideW, p.PadW)
	if p.StrideH > 1 {
		_, lastRow = seeing(p.StrideH-1, p.R, p.StrideH, p.PadH)
	}
	if p.StrideW > 1 {
		_, lastColumn = seeing(p.StrideW-1, p.S, p.StrideW, p.PadW)
	}
	f := layout{
		h: p.OutH(), w: p.OutW(), strideH: 1, strideW: 1, lead: -firstColumn, top: -firstRow, units: kernel.CeilDiv(p.H, p.StrideH), extra: lastRow - firstRow,
		pitch: max(p.OutW()-firstColumn, kernel.CeilDiv(p.W, p.StrideW)+lastColumn),
	}
	f.setBands(p.N*p.C, 2+p.StrideW)
	return f
}

// band is some planes, and the rows that are computed of them.
type band struct{ plane, planes, from, rows int }

// eachBand calls f for all bands of planes.
func (f *layout) eachBand(planes int, do func(b band)) {
	for plane := 0; plane < planes; plane += f.planes {
		for from := 0; from < f.units; from += f.rows {
			do(band{plane, min(f.planes, planes-plane), from, min(f.rows, f.units-from)})
		}
	}
}

// clear makes padding of the frame, as far as so many planes take it.
func (f *layout) clear(planes int, frame []float32, padding float32) {
	if planes >= f.planes {
		elementwise.Fill(frame[:f.elems()], padding)
		return
	}
	for column := range f.strideW {
		for row := range f.strideH {
			elementwise.Fill(frame[f.start+column*f.columnPhase+row*f.rowPhase:][:planes*f.lines()*f.pitch+f.pitch], padding)
		}
	}
}

// fill calls run to copy the rows of a band: from element x of the planes to element y of the frame.
// Lines of partial bands that are beside the plane become padding; those of whole planes are.
func (f *layout) fill(b band, frame []float32, padding float32, run func(t frameTile, x, y int)) {
	top := b.from*f.strideH - f.top
	first, end := max(0, top), min(f.h, top+f.lines()*f.strideH)
	if f.rows < f.units {
		f.padLines(frame, padding, first-top, end-top)
	}
	if f.strideH > 1 && b.planes == 1 {
		f.fillPlane(b, top, first, end, run)
		return
	}
	for phase := range f.strideH {
		from := first + (phase+f.strideH-(first-top)%f.strideH)%f.strideH
		rows := kernel.CeilDiv(max(0, end-from), f.strideH)
		if rows > 0 {
			run(frameTile{
				vectors: f.vectors, lo: f.lo, hi: f.hi, planes: b.planes, rows: rows, xStep: 4 * f.strideH * f.w, xSkip: 4 * (f.h - rows*f.strideH) * f.w,
				yStep: 4 * f.pitch, ySkip: 4 * (f.lines() - rows) * f.pitch, from: from,
			}, (b.plane*f.h+from)*f.w, f.start+phase*f.rowPhase+(from-top)/f.strideH*f.pitch)
		}
	}
}

// fillPlane is fill for rows of one plane: a row of each phase in turn, as they lie in memory.
func (f *layout) fillPlane(b band, top, first, end int, run func(t frameTile, x, y int)) {
	copies := func(from, times, rows int) int { // some rows of each phase, several times
		line, phase := (from-top)/f.strideH, (from-top)%f.strideH
		if times*rows > 0 {
			run(frameTile{
				vectors: f.vectors, lo: f.lo, hi: f.hi, planes: times, rows: rows, xStep: 4 * f.w, yStep: 4 * f.rowPhase, ySkip: 4 * (f.pitch - rows*f.rowPhase),
			}, (b.plane*f.h+from)*f.w, f.start+phase*f.rowPhase+line*f.pitch)
		}
		return from + times*rows
	}
	at := copies(first, 1, min(end-first, (top-first)%f.strideH+f.strideH)%f.strideH)
	at = copies(at, (end-at)/f.strideH, f.strideH)
	copies(at, 1, end-at)
}

// padLines makes lines of a band padding that hold rows before the first one and from the end on.
func (f *layout) padLines(frame []float32, padding float32, first, end int) {
	for phase := range f.strideH {
		line := func(row int) int { return f.start + phase*f.rowPhase + kernel.CeilDiv(row-phase, f.strideH)*f.pitch }
		f.pad(frame, padding, line(phase), line(max(first, phase)))
		f.pad(frame, padding, line(max(end, phase)), line(phase+f.lines()*f.strideH))
	}
}

// pad makes elements padding, in each phase of columns.
func (f *layout) pad(frame []float32, padding float32, from, end int) {
	for column := range f.strideW {
		elementwise.Fill(frame[column*f.columnPhase:][from:end], padding)
	}
}

// frameTile is a call of the vector kernels that copy rows of planes to a frame. Steps are bytes. The layout is known to
// gen/norm/frames.go.
type frameTile struct {
	planes, rows int
	x            *float32
	xStep, xSkip int // between rows, and behind those of a plane
	y            *float32
	yStep, ySkip int
	vectors      int         // whole ones of a row of y; at least one element is left
	lo, hi       kernel.Mask // of what is left of a row, in one vector, or in two for a stride of two
	rest         *float32    // zeros, and behind what is left padding, for each phase
	order        *int32
	second       int // from a phase of columns to the other
	bad          *float32
	factors      *float32
	from         int // place at which the first row of windows begins
	columns      *int32
	line         int // places between rows of windows
}

// copyIn fills a frame with planes of x between padding, and reports whether all that it copied is finite. Rest are the tails of this
// padding.
func (f *layout) copyIn(b band, x, frame []float32, padding float32, rest *tails) (finite bool) {
	var bad [kernel.Block]float32
	finite = true
	f.fill(b, frame, padding, func(t frameTile, from, to int) {
		t.x, t.bad, t.rest = &x[from], &bad[0], &rest[0][0]
		switch f.strideW {
		case 1:
			t.y = &frame[to+f.lead]
			vecFrameRows(&t)
		case 2:
			even := to + f.lead%2*f.columnPhase + f.lead/2
			odd := to + (f.lead+1)%2*f.columnPhase + (f.lead+1)/2
			t.y, t.second, t.order = &frame[even], 4*(odd-even), &pairOrders[0][0]
			vecFramePairs(&t)
		default:
			bad[0] = f.split(&t, x[from:], frame[to:])
		}
		for _, v := range bad {
			finite = finite && v == 0
		}
	})
	return finite
}

// split copies rows in plain Go, for strides without kernels. What it returns is not zero if they have a number that is not finite.
func (f *layout) split(t *frameTile, x, frame []float32) (bad float32) {
	const sign, infinite = 1 << 31, 0x7f800000
	most := uint32(0) // the largest bits without their sign
	for plane := range t.planes {
		for row := range t.rows {
			from, to := x[(plane*(t.rows*t.xStep+t.xSkip)+row*t.xStep)/4:], frame[(plane*(t.rows*t.yStep+t.ySkip)+row*t.yStep)/4:]
			for phase := range f.strideW {
				column := phase + f.lead
				to := to[column%f.strideW*f.columnPhase+column/f.strideW:]
				for w, i := phase, 0; w < f.w; w, i = w+f.strideW, i+1 {
					v := from[w]
					to[i] = v
					most = max(most, math.Float32bits(v)&^sign)
				}
			}
		}
	}
	if most >= infinite {
		return 1
	}
	return 0
}

// pairOrders take even and odd elements of two vectors of 16 apart, and put them together.
var pairOrders = newPairOrders()

func newPairOrders() (orders [4][kernel.Block]int32) {
	const half = kernel.Block / 2
	for i := range int32(kernel.Block) {
		orders[0][i], orders[1][i] = 2*i, 2*i+1
		orders[2][i], orders[3][i] = i/2+i%2*kernel.Block, i/2+i%2*kernel.Block+half
	}
	return orders
}
