package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution with filters in the lanes: a value of x is multiplied by a vector of weights for the output, or of dy for the gradient of the weights,
// wherever it lies. So no stride, dilation or end of a row costs anything, and only what is padded is copied, or what lies far apart. The output is transposed
// afterwards, or dy before: that takes the less of the time, the more taps there are, as gathering what taps see takes the less, the more filters.

// filterTile is a call of the micro-kernel: it computes tiles of some rows of one vector, each a sum over steps of a vector of b times the value of a
// that lies at the place of the row behind that of the step. The layout is known to gen/conv/filter_tile.go.
type filterTile struct {
	a, b, c *float32 // c has the rows of all tiles
	places  *int32   // of the steps, in bytes from a
	rows    *int32   // of the rows, in bytes from those
	count   int      // steps
	tiles   int      // one after the other; it counts them down
	start   *float32 // the vector that all sums start at, or nil to add them to c
	bNext   int      // bytes to the second vector of a pair
	cNext   int
	rowsAt  int // of the next tile
	cAt     int
}

// filterHeights are how high tiles of one vector and of two may be. They have an even number of rows.
var filterHeights = [...]int{1: 10, 2: 6}

// What is worked on at once: so many pixels, if rows are not longer, so that dy of them stays in L1, of images that stay in L2.
const (
	unitPixels = 256
	unitElems  = 1 << 16
)

// byFilters are the shapes that are computed with filters in the lanes.
var byFilters geometry.Memo[bool]

// mostFilterWeights bounds the weights, or their sums, which lie in another order in scratch memory: so many fill the L2 cache, and each
// thread has its own.
const mostFilterWeights = 1 << 18

// fitsFilters reports whether a direction can be computed with filters in the lanes. A pixel of many channels for one tap would be read from as many lines
// of the cache, which their planes leave little of.
func fitsFilters(p *geometry.Shape, d geometry.Direction) bool {
	return p.GroupCount() == 1 && p.PatchSize()*p.K <= mostFilterWeights && p.OutH()*p.OutW() > 1 && (d == geometry.ToWeight || d == geometry.ToOutput && p.R*p.S > 1)
}

// takesFilters reports whether it is: where that gains time, for any number of images.
func takesFilters(p *geometry.Shape, d geometry.Direction) bool {
	if !fitsFilters(p, d) {
		return false
	}
	return byFilters.Of(p, d, func() bool {
		const many = 32
		if d == geometry.ToWeight && !takesWeight(p) {
			return true
		}
		gain := 1.1
		if kernel.Lanes() < kernel.Block {
			gain = 1.3 // what the others take is predicted less well
		}
		q := *p
		q.N = many
		filters, others := filterTerms(&q, d), otherTerms(&q, d)
		return gain*Rates.Cycles(&filters) < Rates.Cycles(&others)
	})
}

// filters is a convolution of a single group, in units of some pixels.
type filters struct {
	p              *geometry.Shape
	copied         bool // images lie in frames
	frame          geometry.Frame
	width, plane   int    // of what taps see: elements of a row and of a channel
	images, rows   int    // of a unit: several images, or rows of one
	whole, rest    places // of the pixels of a unit, and of the last
	tapPlaces      []int32
	weights, start []float32 // [panels][taps][lanes], and bias
	sums           []float32 // of a panel, or of all taps
	grads          []float32 // dy of a unit, [pixels][lanes]
	frames, room   []float32
	seen           []float32 // by taps, of a unit
}

// filterTiling is rows in tiles of two heights.
type filterTiling struct{ high, highTiles, lowTiles int }

// tilingOf is n rows of so many vectors in as few tiles as can be, whose heights differ little.
func tilingOf(n, vectors int) filterTiling {
	tiles := kernel.CeilDiv(n, filterHeights[vectors])
	high := kernel.CeilDiv(kernel.CeilDiv(n, tiles), 2) * 2
	low := 0
	if high > 2 {
		low = min(tiles, (tiles*high-n)/2)
	}
	return filterTiling{high, tiles - low, low}
}

// runFilters computes all tiles of n rows of one vector, or of two.
func runFilters(lanes, vectors, n int, t *filterTile) {
	h := tilingOf(n, vectors)
	t.rowsAt, t.cAt = 0, 0
	if t.tiles = h.highTiles; t.tiles > 0 {
		runFilter(lanes, vectors, h.high, t)
	}
	if t.tiles = h.lowTiles; t.tiles > 0 {
		runFilter(lanes, vectors, h.high-2, t)
	}
}

func runFilter(lanes, vectors, rows int, t *filterTile) {
	if vectors == 2 {
		runFilterPair(lanes, rows/2, t)
	} else {
		runFilterTile(lanes, rows/2, t)
	}
}

// places are those of the pixels of some images, or of some rows, in bytes.
type places struct {
	images, rows, pixels int
	at                   []int32
}

// farApart reports whether images are copied for their places alone: tiles that go from plane to plane read a line here and a line there,
// which hardware does not foresee, while a copy goes along the memory. Tiles of weights gain nothing if a plane has a single tap, or as many
// as they have rows. With vectors of sixteen lanes, or halved ones, that has not been measured.
func farApart(p *geometry.Shape, d geometry.Direction) bool {
	const planes = 32
	if taps := p.R * p.S; d == geometry.ToWeight && (taps == 1 || taps >= filterHeights[1]) {
		return false
	}
	return kernel.Lanes() < kernel.Block && !kernel.Halves() && p.C >= planes && p.Images()*p.C*p.H*p.W > cost.SharedElems
}

func newFilters(p *geometry.Shape, d geometry.Direction) filters {
	f := filters{p: p, copied: p.PadH+p.PadW > 0 || farApart(p, d), width: p.W, plane: p.H * p.W, images: 1, rows: p.OutH()}
	if f.copied {
		f.frame = p.PaddedFrame()
		f.width, f.plane = f.frame.Width, f.frame.Plane
	}
	if pixels := p.OutH() * p.OutW(); pixels <= unitPixels {
		f.images = max(1, min(unitPixels/pixels, unitElems/f.between()))
	} else {
		f.rows = max(1, unitPixels/p.OutW())
	}
	return f
}

// between is the elements from an image to the next of what taps see.
func (f *filters) between() int { return f.p.C * f.plane }

// pixels of a unit.
func (f *filters) pixels() int { return f.images * f.rows * f.p.OutW() }

// panel is filters in one vector or in two, from the first on. They do not fill the last.
type panel struct{ lanes, vectors, first, filters int }

// panelAt is that which begins with a filter.
func (f *filters) panelAt(first int) panel {
	const eight = 8
	lanes, rest := kernel.Lanes(), f.p.K-first
	if rest <= eight {
		return panel{eight, 1, first, rest}
	}
	return panel{lanes, min(2, kernel.CeilDiv(rest, lanes)), first, min(rest, 2*lanes)}
}

// elems is the lanes of its vectors.
func (t panel) elems() int { return t.lanes * t.vectors }

// eachPanel calls do for each panel.
func (f *filters) eachPanel(do func(t panel)) {
	for first := 0; first < f.p.K; {
		t := f.panelAt(first)
		do(t)
		first += t.elems()
	}
}

// eachVector calls do for the panel of each vector.
func (t panel) eachVector(do func(t panel)) {
	for i := range t.vectors {
		do(panel{t.lanes, 1, t.first + i*t.lanes, min(t.lanes, t.filters-i*t.lanes)})
	}
}

// filled is the filters with those that fill up the last vector.
func (f *filters) filled() (n int) {
	f.eachPanel(func(t panel) { n += t.elems() })
	return n
}

// tableElems is the room for the places of so many pixels or taps, of which tiles have up to one more.
func tableElems(n int) int { return n + 1 }

// lines is the rows of a vector's sums, of pixels or of taps.
func (f *filters) lines(d geometry.Direction) int {
	if d == geometry.ToWeight {
		return tableElems(f.p.PatchSize())
	}
	return tableElems(f.pixels())
}

// square is what transposing writes too much.
func square() int { return kernel.Lanes() * (kernel.Lanes() + 1) }

// scratch is the room for a direction.
func (f *filters) scratch(d geometry.Direction) int {
	taps := f.p.PatchSize()
	n := tableElems(taps) + 2*tableElems(f.pixels()) + f.frameElems()
	if d == geometry.ToWeight {
		return n + f.filled()*f.lines(d) + 2*kernel.Lanes()*f.pixels() + kernel.Lanes()*taps + 2*square()
	}
	return n + f.filled()*(taps+1) + 2*kernel.Lanes()*f.lines(d) + kernel.Lanes()*f.pixels() + 2*square()
}

// frameElems is the room for the frames of a unit.
func (f *filters) frameElems() int {
	if !f.copied {
		return 0
	}
	return f.images*f.between() + kernel.Block
}

// cutFilters is the filters of p with their room.
func cutFilters(p *geometry.Shape, d geometry.Direction, scratch []float32) filters {
	f, lanes := newFilters(p, d), kernel.Lanes()
	cut := func(n int) (part []float32) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	table := func(n int) []int32 {
		return unsafe.Slice((*int32)(unsafe.Pointer(&cut(tableElems(n))[0])), tableElems(n))
	}
	f.tapPlaces, f.whole.at, f.rest.at = table(p.PatchSize()), table(f.pixels()), table(f.pixels())
	f.frames = cut(f.frameElems())
	clear(f.frames)
	if d == geometry.ToWeight {
		f.sums = cut(f.filled() * f.lines(d))
		f.grads = cut(2*lanes*f.pixels() + square())
	} else {
		f.start = cut(f.filled())
		f.weights = cut(f.filled()*p.PatchSize() + square())
		f.sums = cut(2 * lanes * f.lines(d))
	}
	f.room = scratch
	return f
}

// setRun notes where the taps of a row of a channel lie, of which the first has a number.
func (f *filters) setRun(first, ch, r int) {
	at, step := int32(4*(ch*f.plane+r*f.p.DilationH()*f.width)), int32(4*f.p.DilationW())
	taps := f.tapPlaces[first:][:f.p.S]
	for s := range taps {
		taps[s] = at
		at += step
	}
}

// place notes the pixels of so many images, or rows of one, and reports whether they are f.rest.
func (f *filters) place(images, rows int) (rest bool) {
	t := &f.whole
	if t.pixels > 0 && (t.images != images || t.rows != rows) {
		t, rest = &f.rest, true
	}
	if t.images == images && t.rows == rows {
		return rest
	}
	n, step := f.p.OutW(), int32(4*f.p.StrideW)
	t.images, t.rows, t.pixels = images, rows, images*rows*n
	for i := range images * rows {
		at := int32(4 * (i/rows*f.between() + i%rows*f.p.StrideH*f.width))
		for j, line := 0, t.at[i*n:][:n]; j < len(line); j++ {
			line[j] = at
			at += step
		}
	}
	t.at[t.pixels] = t.at[t.pixels-1] // tiles may have a row more
	return rest
}

// places are those of a unit.
func (f *filters) places(u unit) *places {
	if u.rest {
		return &f.rest
	}
	return &f.whole
}

// unit is the pixels of some images from the nth on, or of some rows of one.
type unit struct {
	n, row int
	at     int  // where what they see begins, in f.seen
	rest   bool // they are f.rest
}

// eachUnit calls do for each unit, with what it sees in f.seen.
func (f *filters) eachUnit(x []float32, do func(u unit)) {
	p := f.p
	size := p.C * p.H * p.W
	for n := 0; n < p.N; n += f.images {
		images := min(f.images, p.N-n)
		f.seen = x[n*size:]
		if f.copied {
			for i := range images {
				f.frame.Fill(f.seen[i*size:], f.frames[i*f.between():])
			}
			f.seen = f.frames
		}
		for row := 0; row < p.OutH(); row += f.rows {
			do(unit{n, row, row * p.StrideH * f.width, f.place(images, min(f.rows, p.OutH()-row))})
		}
	}
}

// forwardByFilters is Forward.
func forwardByFilters(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	const bytes = 4
	f := cutFilters(p, geometry.ToOutput, scratch)
	taps, plane, line := p.PatchSize(), p.OutH()*p.OutW(), f.lines(geometry.ToOutput)
	for i := range p.R * p.C { // in the order of the other ways to compute y
		f.setRun(i*p.S, i%p.C, i/p.C)
	}
	f.packFilters(w, bias)
	f.eachUnit(x, func(u unit) {
		t, y := f.places(u), y[u.n*p.K*plane+u.row*p.OutW():]
		f.eachPanel(func(v panel) {
			c := filterTile{
				a: &f.seen[u.at], b: &f.weights[v.first*taps], c: &f.sums[0], places: &f.tapPlaces[0], rows: &t.at[0], count: taps, start: &f.start[v.first],
				bNext: bytes * taps * v.lanes, cNext: bytes * line * v.lanes,
			}
			runFilters(v.lanes, v.vectors, t.pixels, &c)
			v.eachVector(func(one panel) { f.store(t, one, f.sums[(one.first-v.first)*line:], y[one.first*plane:]) })
		})
	})
}

// packFilters writes the weights in the order of taps, and the bias. What it writes behind a run of taps belongs to the next.
func (f *filters) packFilters(w, bias []float32) {
	p, taps := f.p, f.p.PatchSize()
	clear(f.start)
	copy(f.start, bias)
	f.eachPanel(func(v panel) {
		v.eachVector(func(v panel) {
			for run := range p.R * p.C {
				r, ch := run/p.C, run%p.C
				gemm.TransposeStrided(v.lanes, v.filters, p.S, w[v.first*taps+(ch*p.R+r)*p.S:], taps, f.weights[v.first*taps+run*p.S*v.lanes:], v.lanes)
			}
		})
	})
}

// store transposes the sums of a vector to y.
func (f *filters) store(t *places, v panel, sums, y []float32) {
	plane, n := f.p.OutH()*f.p.OutW(), t.rows*f.p.OutW()
	for i := range t.images {
		from, to := sums[i*n*v.lanes:], y[i*f.p.K*plane:]
		if v.filters < v.lanes || n < v.lanes {
			gemm.TransposeStrided(v.lanes, n, v.filters, from, v.lanes, f.room, n)
			for k := range v.filters {
				copy(to[k*plane:][:n], f.room[k*n:])
			}
			continue
		}
		whole := n / v.lanes * v.lanes
		gemm.TransposeStrided(v.lanes, whole, v.lanes, from, v.lanes, to, plane)
		if last := n - v.lanes; n > whole {
			gemm.TransposeStrided(v.lanes, v.lanes, v.lanes, from[last*v.lanes:], v.lanes, to[last:], plane)
		}
	}
}

// gradWeightByFilters is GradWeight.
func gradWeightByFilters(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	const bytes = 4
	f := cutFilters(p, geometry.ToWeight, scratch)
	taps, line := p.PatchSize(), f.lines(geometry.ToWeight)
	for i := range p.C * p.R {
		f.setRun(i*p.S, i/p.R, i%p.R)
	}
	f.tapPlaces[taps] = f.tapPlaces[taps-1] // tiles may have a row more
	clear(f.sums)
	f.eachUnit(x, func(u unit) {
		t, dy := f.places(u), dy[u.n*p.K*p.OutH()*p.OutW()+u.row*p.OutW():]
		f.eachPanel(func(v panel) {
			v.eachVector(func(one panel) { f.load(t, one, dy, f.grads[(one.first-v.first)*t.pixels:]) })
			c := filterTile{
				a: &f.seen[u.at], b: &f.grads[0], c: &f.sums[v.first*line], places: &t.at[0], rows: &f.tapPlaces[0], count: t.pixels,
				bNext: bytes * t.pixels * v.lanes, cNext: bytes * line * v.lanes,
			}
			runFilters(v.lanes, v.vectors, taps, &c)
		})
	})
	f.eachPanel(func(v panel) {
		v.eachVector(func(v panel) {
			gemm.TransposeStrided(v.lanes, taps, v.filters, f.sums[v.first*line:], v.lanes, f.room, taps)
			if to := dw[v.first*taps:][:v.filters*taps]; accumulate {
				elementwise.AddTo(to, f.room[:len(to)])
			} else {
				copy(to, f.room)
			}
		})
	})
}

// load transposes a unit's dy for the filters of a vector. What it writes behind an image belongs to the next.
func (f *filters) load(t *places, v panel, dy, grads []float32) {
	plane, pixels := f.p.OutH()*f.p.OutW(), t.rows*f.p.OutW()
	for i := range t.images {
		gemm.TransposeStrided(v.lanes, v.filters, pixels, dy[(i*f.p.K+v.first)*plane:], plane, grads[i*pixels*v.lanes:], v.lanes)
	}
}
