package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// The weight gradient with vectors of sixteen pixels that cross the ends of rows: x is copied once for each column of
// taps, so that what a tap sees lies in the order of dy's pixels. No lane idles but behind the last pixel of a plane.
// Sums stay vectors over all images, and are added up in the end, so that a call may be as short as the L1 cache likes.

// viewDots is a call of the micro-kernel: for the rows of dy and the views of x of one tile, it adds the products of
// pixels to vectors of sums. It counts in images. The layout is known to gen/conv/views.go.
type viewDots struct {
	images, dyImage, xImage int // the steps are bytes
	vectors                 int // whole ones of a plane
	tail                    kernel.Mask
	dy                      *float32
	dyRow                   int      // bytes between rows of dy
	sums                    *float32 // [rows][views][lanes]
	x                       [maxViews]*float32
}

// The tiles that there are have so many views of x.
const maxViews, leastViews = 8, 4

// viewTiling is the tiles of vectors of so many lanes: the most views for each number of rows of dy, and how many rows are best.
type viewTiling struct {
	views [7]int
	most  int
	best  int
}

var viewTilings = [...]viewTiling{{[...]int{1: 8, 2: 6, 3: 4, 6: 0}, 3, 3}, {[...]int{1: 8, 2: 8, 3: 8, 4: 6, 5: 5, 6: 4}, 6, 4}}

// viewTilingOf is that of vectors of so many lanes.
func viewTilingOf(lanes int) *viewTiling { return &viewTilings[lanes/kernel.Block] }

// Bounds of what a weight gradient works on at once: views of images stay in L2, and so do sums; of pixels, in L1, the rows of dy
// of a tile and what it sees of a channel.
const (
	mostElems   = 1 << 18 // of one image
	viewElems   = 1 << 16
	viewSums    = 1 << 12
	leastSums   = 1 << 5 // of a group for which copies may pay
	viewVectors = 64     // of images together
	partVectors = 80     // of a plane
)

// takesViews reports whether the weight gradient is computed by views: where that takes less time, for any number of images.
func takesViews(p *geometry.Shape) bool {
	if kernel.Wide() && kernel.Halves() || !fitsViews(p) || hasFewWeights(p) {
		return false
	}
	return viewed.Of(p, geometry.ToWeight, func() bool {
		batch := *p
		batch.N = manyImages
		views, dots := viewTerms(&batch), dotTerms(&batch)
		return Rates.Cycles(&views) < Rates.Cycles(&dots)
	})
}

// viewed are the shapes, by direction, for which views take less time, and manyImages those for which that is worked out.
var viewed geometry.Memo[bool]

const manyImages = 32

// hasFewWeights reports whether a group has so few weights that copies for each column of taps never pay.
func hasFewWeights(p *geometry.Shape) bool { return p.K/p.GroupCount()*p.PatchSize() < leastSums }

// fitsViews reports whether gradWeightByViews can compute the weight gradient.
func fitsViews(p *geometry.Shape) bool {
	v := p.InputViews()
	return p.TakesViews() && p.K/p.GroupCount()*p.PatchSize() <= viewSums && v.Elems() <= mostElems
}

// height is that of the next tile of n rows of dy.
func (t *viewTiling) height(n int) int {
	if n > t.most {
		return t.best
	}
	return n
}

// eachViewRow calls f for every row of tiles: rows of dy from row on, and how many tiles share the taps.
func eachViewRow(lanes, filters, taps int, f func(row, rows, tiles int)) {
	t := viewTilingOf(lanes)
	for row := 0; row < filters; {
		rows := t.height(filters - row)
		f(row, rows, kernel.CeilDiv(taps, t.views[rows]))
		row += rows
	}
}

// viewTile is the taps of tile i of some, and how many views the micro-kernel takes for them: more, where they are few.
func viewTile(i, tiles, taps int) (first, end, views int) {
	first, end = i*taps/tiles, (i+1)*taps/tiles
	return first, end, max(end-first, leastViews)
}

// viewSumsOf is how many sums all tiles give, and how many tiles there are.
func viewSumsOf(lanes, filters, taps int) (sums, tiles int) {
	eachViewRow(lanes, filters, taps, func(_, rows, n int) {
		sums += rows * max(taps, n*leastViews)
		tiles += n
	})
	return sums, tiles
}

// viewCall is the weight gradient of one group over all images.
type viewCall struct {
	p       geometry.Shape
	views   geometry.Views
	filters int
	plane   int // pixels
	// How many images' views are there at once, and how many of these a call takes whose planes are small.
	batch, together int
	room            []float32 // views of images
	taps            []int32   // where in an image's views what a tap sees begins
	sums            []float32 // vectors of each tile
	totals          []float32
}

func newViewCall(p *geometry.Shape) viewCall {
	c := viewCall{p: *p, views: p.InputViews(), filters: p.K / p.GroupCount(), plane: p.OutH() * p.OutW()}
	c.together = max(1, viewVectors/(c.plane/kernel.Block+1))
	c.batch = max(1, viewElems/c.views.Elems()/c.together) * c.together
	return c
}

func (c *viewCall) scratch() int {
	sums, _ := viewSumsOf(kernel.Block, c.filters, c.p.PatchSize())
	return min(c.batch, c.p.N)*c.views.Elems() + c.views.MaskElems() + c.p.PatchSize() + sums*(kernel.Block+1) + kernel.Block
}

// reserve cuts the call's buffers from scratch, the vectors first, from a line of the cache on.
func (c *viewCall) reserve(scratch []float32) {
	const line = 4 * kernel.Block
	scratch = scratch[-uintptr(unsafe.Pointer(&scratch[0]))%line/4:]
	cut := func(n int) (part []float32) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	n, _ := viewSumsOf(kernel.Block, c.filters, c.p.PatchSize())
	c.sums, c.room, c.totals = cut(n*kernel.Block), cut(min(c.batch, c.p.N)*c.views.Elems()), cut(n)
	c.views.SetMasks(cut(c.views.MaskElems()))
	taps := cut(c.p.PatchSize())
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&taps[0])), len(taps))
	for i := range c.taps {
		rs := c.p.R * c.p.S
		c.taps[i] = int32(c.views.At(i/rs, i%rs/c.p.S, i%c.p.S))
	}
	clear(c.room)
}

// gradWeightByViews is GradWeight.
func gradWeightByViews(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	c := newViewCall(p)
	c.reserve(scratch)
	for g := range p.GroupCount() {
		clear(c.sums)
		for n := 0; n < p.N; n += c.batch {
			images := min(c.batch, p.N-n)
			for b := range images {
				c.views.Fill(x[((n+b)*p.C+g*c.views.Channels)*p.H*p.W:], c.room[b*c.views.Elems():])
			}
			c.run(images, dy[(n*p.K+g*c.filters)*c.plane:])
		}
		elementwise.RowSums(len(c.totals), kernel.Block, c.sums, c.totals)
		c.store(dw[g*c.filters*p.PatchSize():], accumulate)
	}
}

// run adds the products of images, of so many vectors at a time: of part of a plane, or of the planes of several images.
func (c *viewCall) run(images int, dy []float32) {
	whole := c.plane / kernel.Block
	t := viewDots{dyImage: 4 * c.p.K * c.plane, xImage: 4 * c.views.Elems(), dyRow: 4 * c.plane}
	parts := viewParts(c.plane)
	for b := 0; b < images; b += c.together {
		for i := range parts {
			first, end := i*whole/parts, (i+1)*whole/parts
			if t.tail = 0; i == parts-1 {
				t.tail = kernel.FirstLanes(c.plane % kernel.Block)
			}
			t.vectors = end - first
			at := first * kernel.Block
			c.tiles(&t, min(c.together, images-b), dy[b*c.p.K*c.plane+at:], c.room[b*c.views.Elems()+at:])
		}
	}
}

// viewParts is how many parts of a plane are worked on one after the other.
func viewParts(plane int) int { return kernel.CeilDiv(plane, partVectors*kernel.Block) }

// tiles runs the micro-kernel for every tile.
func (c *viewCall) tiles(t *viewDots, images int, dy, views []float32) {
	sums, taps := 0, len(c.taps)
	eachViewRow(kernel.Block, c.filters, taps, func(row, rows, tiles int) {
		t.dy = &dy[row*c.plane]
		for i := range tiles {
			first, _, n := viewTile(i, tiles, taps)
			for j := range n {
				t.x[j] = &views[c.taps[min(first+j, taps-1)]]
			}
			t.images, t.sums = images, &c.sums[sums*kernel.Block]
			runViewDots(kernel.Block, rows, n, t)
			sums += rows * n
		}
	})
}

// store writes or adds the totals to a group's part of dw.
func (c *viewCall) store(dw []float32, accumulate bool) {
	totals, taps := c.totals, len(c.taps)
	eachViewRow(kernel.Block, c.filters, taps, func(row, rows, tiles int) {
		for i := range tiles {
			first, end, views := viewTile(i, tiles, taps)
			for j := range rows {
				to := dw[(row+j)*taps:][first:end]
				for tap := range to {
					if accumulate {
						totals[tap] += to[tap]
					}
					to[tap] = totals[tap]
				}
				totals = totals[views:]
			}
		}
	})
}
