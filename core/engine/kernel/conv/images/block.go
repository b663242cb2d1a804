package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// block is some rows of some outputs of as many images as vectors have lanes, and what they look at in some channels.
type block struct {
	*pass
	lanes               int
	first, end          int // its rows
	low, high           int // the rows of the input that these look at
	firstOut, endOut    int
	channel, endChannel int
	from                []float32 // [channels][rows][columns][lanes]
	to                  []float32 // [outputs][rows][columns][lanes], and storeElems
}

// rows of the outputs, and of the input.
func (b *block) rows() int { return b.end - b.first }
func (b *block) seen() int { return b.high - b.low }

// load transposes the rows of the input.
func (b *block) load(x []float32) {
	n, planes := b.seen()*b.in.w, b.endChannel-b.channel
	if b.seen() == b.in.h {
		n, planes = planes*n, 1
	}
	if n == 0 {
		return
	}
	for i := range planes {
		b.loadPlane(n, x[(b.channel+i)*b.in.pixels()+b.low*b.in.w:], b.from[i*n*b.lanes:])
	}
}

// loadPlane transposes n pixels.
func (b *block) loadPlane(n int, x, to []float32) {
	whole := n / b.lanes * b.lanes
	fromImages(b.lanes, whole, x, b.in.between, to)
	if n > whole {
		gemm.TransposeStrided(b.lanes, b.lanes, n-whole, x[whole:], b.in.between, to[whole*b.lanes:], b.lanes)
	}
}

// start sets the outputs to the bias, or 0, if some see padding alone, or if the bias is not what sums start at.
func (b *block) start(bias []float32) {
	left := b.rows() * b.out.w
	b.phases(func(h, w geometry.Phase) {
		apart, _ := b.apart()
		lo, hi := rowsOf(&h, apart, b.first, b.end)
		left -= seeingAny(&h.Axis, lo, hi) * seeingAny(&w.Axis, 0, w.Pixels)
	})
	if left == 0 && (b.byRows || bias == nil) {
		return
	}
	n := b.rows() * b.out.w * b.lanes
	if bias == nil {
		clear(b.to[:(b.endOut-b.firstOut)*n])
		return
	}
	for i, v := range bias[b.firstOut:b.endOut] {
		elementwise.Fill(b.to[i*n:][:n], v)
	}
}

// store transposes the outputs.
func (b *block) store(y []float32) {
	n, planes := b.rows()*b.out.w, b.endOut-b.firstOut
	if b.rows() == b.out.h {
		n, planes = planes*n, 1
	}
	for i := range planes {
		b.storePlane(n, b.to[i*n*b.lanes:], y[(b.firstOut+i)*b.out.pixels()+b.first*b.out.w:])
	}
}

// storePlane transposes n outputs.
func (b *block) storePlane(n int, from, y []float32) {
	if n < b.lanes {
		b.storeFew(n, from, y)
		return
	}
	if geometry.Collide(b.lanes, b.out.between) {
		b.storeRuns(n, from, y)
		return
	}
	storeVectors(b.lanes, n, from, y, b.out.between)
}

// storedAtOnce are the outputs of each image that storeRuns copies at a time.
const storedAtOnce = 256

// storeRuns is storePlane by way of room in which images lie in different sets.
func (b *block) storeRuns(n int, from, y []float32) {
	const apart = storedAtOnce + kernel.Block
	room := b.to[(b.endOut-b.firstOut)*b.rows()*b.out.w*b.lanes:]
	for first := 0; first < n; first += storedAtOnce {
		count := min(storedAtOnce, n-first)
		at := min(first, n-b.lanes) // at least a vector
		count += first - at
		storeVectors(b.lanes, count, from[at*b.lanes:], room, apart)
		for image := range b.lanes {
			copy(y[image*b.out.between+at:][:count], room[image*apart:])
		}
	}
}

// storeElems is the room behind outputs that storing them needs.
func (c *pass) storeElems(lanes int) int { return lanes * (storedAtOnce + 2*kernel.Block) }

// storeVectors transposes n vectors, at least as many as they have lanes, to runs of elements which lie so far apart. The last vector of each begins so
// early that it ends with the run.
func storeVectors(lanes, n int, from, y []float32, between int) {
	toImages(lanes, n/lanes*lanes, from, y, between)
	if last := n - lanes; n%lanes > 0 {
		toImages(lanes, lanes, from[last*lanes:], y[last:], between)
	}
}

// storeFew is storePlane for less than a vector.
func (b *block) storeFew(n int, from, y []float32) {
	lanes := b.lanes
	square := b.to[(b.endOut-b.firstOut)*b.rows()*b.out.w*lanes:]
	gemm.TransposeStrided(lanes, n, lanes, from, lanes, square, lanes)
	for image := range lanes {
		copy(y[image*b.out.between:][:n], square[image*lanes:])
	}
}

// add adds the products of a phase's outputs. A sum takes as many channels at a time as package im2col does, or all if by rows.
func (b *block) add(h, w *geometry.Phase, packed, bias []float32) {
	var vert, hori runs
	apart, _ := b.apart()
	lo, hi := rowsOf(h, apart, b.first, b.end)
	vert.between(&h.Axis, lo, hi)
	hori.between(&w.Axis, 0, w.Pixels)
	taps, height := b.p.R*b.p.S, b.height()
	chunk := max(1, gemm.BlockK/(h.N*w.N))
	for ch := b.channel; ch < b.endChannel; ch += chunk {
		channels := min(chunk, b.endChannel-ch)
		for i := b.firstOut; i < b.endOut; i += height {
			rows := min(height, b.endOut-i)
			panel := packed[(i*b.channels+ch*rows)*taps:]
			var start *float32
			switch {
			case ch == 0 && bias == nil:
				start = &geometry.NoBias[0]
			case ch == 0 && b.byRows:
				start = &bias[i]
			}
			for _, v := range vert.list() {
				b.addRows(h, w, &v, &hori, ch, channels, i, rows, panel, start)
			}
		}
	}
}

// addRows adds the products of some channels with a panel of weights to a run of rows of so many outputs from i on, or to
// what these start at.
func (b *block) addRows(h, w *geometry.Phase, v *run, hori *runs, ch, channels, i, rows int, panel []float32, start *float32) {
	const bytes = 4
	apart, beside := b.apart()
	inLine, outLine := b.in.w*b.lanes, b.out.w*b.lanes
	t := nestTile{ldc: bytes * b.rows() * outLine, bias: start}
	for _, u := range hori.list() {
		outer, middle := loop{channels, b.p.R * b.p.S * rows, b.seen() * inLine}, loop{v.taps, h.EveryTap * b.p.S * rows, h.Axis.Step * inLine}
		if b.byRows {
			outer, middle = middle, outer
		}
		t.setLoops(outer, middle, loop{u.taps, w.EveryTap * rows, w.Axis.Step * b.lanes})
		tap := (h.FirstTap+v.first*h.EveryTap)*b.p.S + w.FirstTap + u.first*w.EveryTap
		column := u.at*w.Axis.Stride + w.Axis.First + u.first*w.Axis.Step
		row := v.at*h.Axis.Stride + h.Axis.First + v.first*h.Axis.Step - b.low
		from := b.from[((ch-b.channel)*b.seen()+row)*inLine+column*b.lanes:]
		to := b.to[((i-b.firstOut)*b.rows()+h.Pixel+v.at*apart-b.first)*outLine+(w.Pixel+u.at*beside)*b.lanes:]
		t.a = &panel[tap*rows]
		down, nextDown := h.Axis.Stride*inLine, apart*outLine
		if u.n == 1 { // tiles one below the other
			t.b, t.c, t.bNext, t.cNext = &from[0], &to[0], bytes*down, bytes*nextDown
			t.runTiles(b.lanes, rows, v.n)
			continue
		}
		for j := range v.n {
			t.b, t.c, t.bNext, t.cNext = &from[j*down], &to[j*nextDown], bytes*w.Axis.Stride*b.lanes, bytes*beside*b.lanes
			t.runTiles(b.lanes, rows, u.n)
		}
	}
}
