package product

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// tiles is a product of weights with many images of pixels columns: out rows from in rows.
type tiles struct {
	gemm.TileShape
	in, out          int
	pixels           int
	between, outStep int       // elements from an image to the next
	line, outLine    int       // elements from a row to the next
	block            int       // vectors of pixels that are worked on at once
	beside           bool      // see plan.beside
	far              bool      // y does not stay in the last cache
	fetches          bool      // see plan.fetches
	packed           []float32 // panels of what they see, or nil: [block][in][lanes]
	offsets          []int32   // byte offsets of its rows
	weights          []float32
	bias             []float32
	adds             bool // to what is in y
}

// A plan is a product of out rows from in rows of so many pixels, from which follows how it is computed.
type plan struct {
	in, out, pixels int
	far             bool // its images do not stay in the last cache
	reads           bool // the in rows are those of images, and not copies
}

// blockElems bounds the pixels that are copied at once, so that they stay near: in L1, or soon in L2. Where they come from far away rows are longer, the
// more so the wider vectors are.
func (p *plan) blockElems() int {
	const near, far = 1 << 13, 1 << 11
	if p.far {
		return far * kernel.Lanes()
	}
	return near
}

// packs reports whether the in rows are copied: of planes that are far, where there are so many that cores do not prefetch all of them, and enough products for
// copies to pay, which take longer where vectors are computed in halves; and, where vectors are short, of planes pages apart, whose lines want the
// same set of the cache and do not stay there until they are read again.
func (p *plan) packs() bool {
	const prefetched, pay = 32, 48
	if kernel.Lanes() >= kernel.Block {
		return p.far && p.reads && p.out >= prefetched/2 && p.outrun()
	}
	if p.far && p.reads && p.in >= prefetched && p.in+p.out > pay && !kernel.Halves() {
		return true
	}
	return p.pagesApart() && (p.out >= 32 || min(p.in, p.out) >= 64)
}

// outrun reports whether planes are too many to be prefetched while tiles read a block of them, which takes less time with wide vectors: so many that a
// block is two vectors, or fewer whose rows lie many pages apart.
func (p *plan) outrun() bool {
	const many, manyPages = 96, 8 * 4096 / 4
	return p.in > besideRows && p.pixels > leastBeside*kernel.Lanes() || p.in >= many && p.pixels > manyPages
}

// pagesApart reports whether planes begin pages.
func (p *plan) pagesApart() bool { return p.pixels%(4096/4) == 0 }

// beside reports whether a call of the micro-kernel takes the pixels beside each other, and not the rows of y below each other: where
// an image has enough vectors for calls to be fewer, and so many of all in rows stay in L1 or come from L2 as fast as they are
// needed.
func (p *plan) beside() bool {
	if p.packs() {
		return !p.below()
	}
	return p.in <= besideRows && p.pixels > leastBeside*kernel.Lanes()
}

// below reports whether it pays to go down the rows of y where pixels are copied: two vectors of all in rows then stay in L1, and the
// weights come from L2, of which a tile has fewer. That takes many rows of y, and many products for each sum if these rows are pages
// apart, where each sum goes to another page and to the same set of the L1 cache.
func (p *plan) below() bool {
	const many = 64
	return p.out >= many && (p.in >= many || !p.pagesApart())
}

// fetches reports whether the next block is prefetched while tiles read this one: cores do not prefetch from so many rows in turn.
func (p *plan) fetches() bool {
	return p.far && p.reads && p.beside() && !p.packs()
}

// besideRows bounds the rows of pixels that calls take beside each other, leastBeside and mostBeside the vectors of a row, and nearElems the elements of
// all rows of these.
const (
	besideRows              = 256
	leastBeside, mostBeside = 8, 64
	nearElems               = 1 << 14
)

// block is how many vectors of pixels are worked on at once: so many of all rows that they stay in L1, or in L2 where that would be
// too few for long calls.
func (p *plan) block() int {
	switch {
	case p.packs():
		return max(2, p.blockElems()/panelElems(p.in)&^1)
	case p.beside():
		return max(leastBeside, min(mostBeside, nearElems/(p.in*kernel.Lanes())&^1))
	}
	return 2
}

// panelElems is the distance of the panels of in rows: an odd number of cache lines, so that
// what lies side by side in a row goes to different sets.
func panelElems(in int) int {
	return (kernel.CeilDiv(in*kernel.Lanes(), kernel.Block) | 1) * kernel.Block
}

// scratch is the room for the offsets and a block of pixels, enough for fewer rows, too.
func (p *plan) scratch() int {
	n := min(p.in, gemm.BlockK)
	if p.packs() {
		n += max(p.blockElems(), 2*panelElems(p.in))
	}
	return n
}

// lanes is how many lanes the vectors of pixels have.
func (p *plan) lanes() int {
	if p.packs() {
		return kernel.Lanes()
	}
	const pair = 2 // of vectors, of the same image or not
	return cost.TileLanes(pair*kernel.CeilDiv(p.pixels, kernel.Lanes()), pair*kernel.CeilDiv(p.pixels, narrow), p.in, p.out)
}

// newTiles is for r, whose weights it packs unless they are known. Rows of the input are line apart.
func newTiles(p plan, line int, r *rows, weights, room []float32) tiles {
	t := tiles{TileShape: gemm.TileOf(p.lanes()), in: p.in, out: p.out, pixels: p.pixels, line: line, block: p.block(), beside: p.beside(), fetches: p.fetches()}
	step := line
	if p.packs() {
		n := t.block * panelElems(p.in)
		t.packed, room, step = room[:n], room[n:], t.Lanes
	}
	t.bias, t.adds = r.bias, r.adds
	t.offsets, t.weights = unsafe.Slice((*int32)(unsafe.Pointer(&room[0])), min(t.in, gemm.BlockK)), weights[r.place:]
	for i := range t.offsets {
		t.offsets[i] = int32(4 * i * step)
	}
	if !r.known {
		t.packWeights(r)
	}
	return t
}

// packWeights packs the weights of r.
func (c *tiles) packWeights(r *rows) {
	height := gemm.EvenRows(c.out, c.Rows)
	for l := 0; l < c.in; l += gemm.BlockK {
		k := min(gemm.BlockK, c.in-l)
		gemm.PackPanels(c.TileShape, r.weights[l*r.col:], r.row, r.col, c.out, k, height, c.weights[l*c.out:])
	}
}

// place is a vector of pixels: its image and its first pixel.
type place struct{ image, pixel int }

// next is the vector behind p.
func (c *tiles) next(p place) place { return c.skip(p, 1) }

// run computes images from x to y.
func (c *tiles) run(images int, x, y []float32) {
	var p place
	for rest := kernel.CeilDiv(c.pixels, c.Lanes) * images; rest > 0; rest -= c.block {
		p = c.runBlock(p, min(c.block, rest), x, y)
	}
}

// runBlock computes count vectors of pixels from first on, and returns the place behind them.
func (c *tiles) runBlock(first place, count int, x, y []float32) (p place) {
	pixels := first.pixel + count*c.Lanes // where the next block begins
	images := pixels / c.pixels
	pixels -= images*c.pixels + first.pixel
	if c.packed != nil {
		c.pack(first, count, images*c.between+pixels, x)
	}
	step, next := c.out, 2*c.Lanes // rows of y that a pair of vectors takes before the next one, and elements to that
	ahead := 4 * (images*c.outStep + pixels)
	if c.beside {
		step = gemm.EvenRows(c.out, c.Rows)
	}
	if c.beside && c.packed == nil && !c.far {
		ahead = -1 // the core itself prefetches rows that are written from side to side
	}
	if c.packed != nil {
		next = 2 * panelElems(c.in)
	}
	for l := 0; l < c.in; l += gemm.BlockK {
		t := gemm.Tile{K: min(gemm.BlockK, c.in-l), Off: &c.offsets[0], Ldc: 4 * c.outLine, Ahead: ahead, BNext: 4 * next, CNext: 8 * c.Lanes}
		if c.adds || l > 0 {
			t.Add = 1
		}
		for i := 0; i < c.out; i += step {
			if c.fetches {
				c.fetch(first, count, l, i, step, images*c.between+pixels, x)
			}
			p = first
			for v := 0; v < count; {
				var to0, to1 int
				t.B0, to0, t.N0 = c.column(p, v, l, x)
				t.B1, to1, t.N1 = t.B0, to0, c.Mask(0)
				t.Count = c.pairs(p, count-v)
				if t.Count > 0 {
					t.B1, to1, t.N1 = c.column(c.next(p), v+1, l, x)
					v += 2 * t.Count
					p = c.skip(p, 2*t.Count)
				} else {
					if p = c.next(p); v+1 < count {
						t.B1, to1, t.N1 = c.column(p, v+1, l, x)
						p = c.next(p)
					}
					v += 2
				}
				c.tiles(&t, l, i, min(i+step, c.out), y[to0:], y[to1:])
			}
		}
	}
	return p
}

// pairs is how many pairs of whole vectors of one image, of count vectors from p on, the micro-kernel takes in a call:
// none where calls go down the rows of y.
func (c *tiles) pairs(p place, count int) int {
	if !c.beside {
		return 0
	}
	return min(count, (c.pixels-p.pixel)/c.Lanes) / 2
}

// skip is the place that many vectors behind p, in its image or at the beginning of the next.
func (c *tiles) skip(p place, vectors int) place {
	if p.pixel += vectors * c.Lanes; p.pixel >= c.pixels {
		return place{p.image + 1, 0}
	}
	return p
}

// tiles computes the rows [i, end) of a pair of vectors.
func (c *tiles) tiles(t *gemm.Tile, l, i, end int, y0, y1 []float32) {
	height := gemm.EvenRows(c.out, c.Rows)
	for count := 1; i < end; i += height * count {
		t.A, t.C0, t.C1 = &c.weights[l*c.out+i*t.K], &y0[i*c.outLine], &y1[i*c.outLine]
		if t.Bias = nil; c.bias != nil && t.Add == 0 { // what is added to began with it
			t.Bias = &c.bias[i]
		}
		if !c.beside {
			count = max(1, (end-i)/height)
			below(t, count, height)
		}
		c.Run(min(height, end-i), t)
	}
}

// below makes t that many tiles of height rows below each other.
func below(t *gemm.Tile, count, height int) {
	t.Count, t.ANext, t.BNext, t.CNext, t.BiasNext = count, 4*height*t.K, 0, height*t.Ldc, 0
	if t.Bias != nil {
		t.BiasNext = 4 * height
	}
}

// pack copies what a block of vectors sees to panels, and prefetches what lies ahead elements behind it.
func (c *tiles) pack(p place, count, ahead int, x []float32) {
	panel := panelElems(c.in)
	for v := 0; v < count; p = (place{p.image + 1, 0}) {
		n := min(count-v, kernel.CeilDiv(c.pixels-p.pixel, c.Lanes))
		gemm.PackVectors(c.in, n, &x[p.image*c.between+p.pixel], c.line, ahead, &c.packed[v*panel], panel)
		v += n
	}
}

// column is where vector v of a block lies: in x or its panel, from input l on, and in y; and which of its pixels count.
func (c *tiles) column(p place, v, l int, x []float32) (b *float32, to int, lanes kernel.Mask) {
	to, lanes = p.image*c.outStep+p.pixel, c.Mask(min(c.Lanes, c.pixels-p.pixel))
	if c.packed != nil {
		return &c.packed[v*panelElems(c.in)+l*c.Lanes], to, lanes
	}
	return &x[p.image*c.between+p.pixel+l*c.line], to, lanes
}

// runSafely is run, for which the last images, behind which vectors must not read, go through a copy where they would.
func (c *tiles) runSafely(images, last int, x, y, room []float32) {
	if c.pixels%c.Lanes == 0 {
		last = 0
	}
	if images > last {
		c.run(images-last, x, y)
	}
	for i := images - last; i < images; i++ {
		copy(room, x[i*c.between:][:c.in*c.pixels])
		c.run(1, room, y[i*c.outStep:])
	}
}

// fetch prefetches a share of what lies ahead elements behind a block: as much as the tiles of step rows from i on are of all.
func (c *tiles) fetch(p place, count, l, i, step, ahead int, x []float32) {
	k := min(gemm.BlockK, c.in-l)
	from, end := k*i/c.out, k*min(i+step, c.out)/c.out
	if from < end {
		gemm.FetchRows(end-from, count*c.Lanes, &x[p.image*c.between+p.pixel+(l+from)*c.line], ahead, c.line)
	}
}
