package product

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Gradients of few weights: a matrix product would take longer to pack dy and x than to multiply them. So both are read as they
// lie, with pixels in the lanes, and vectors of sums are added up over all images.

// dotted is such a gradient.
type dotted struct {
	direct.Dots
	patches
	kg    int
	lanes int
	side  joined // images of a few pixels lie side by side
	sums  int    // vectors of a group
}

// mostSums bounds the vectors of sums of all groups, and nearVectors those of a row that are worked on at once, of a whole register
// each, so that the rows of a tile stay in L1. windowElems bounds the elements of several images that are worked on at once where they come from far away,
// so that they stay in L2 until all tiles have read them, beside those that are prefetched.
const (
	mostSums    = 1 << 12
	nearVectors = 64
	windowElems = 3 << 14
)

// newDotted is of a shape with more than one pixel.
func newDotted(m *patches, kg int) dotted {
	d := dotted{Dots: direct.NewKept(kg, m.rows), patches: *m, kg: kg, lanes: kernel.Lanes()}
	_, _, sums := d.Cost()
	d.sums, d.side = int(sums), m.alone()
	if m.pixels < d.lanes {
		d.side = m.side(min(m.batch, kernel.CeilDiv(deepPixels, m.pixels)))
	}
	return d
}

// dots are the shapes whose gradients are computed this way, and whether they are.
var dots geometry.Memo[bool]

// takesDots reports whether the weight gradient is computed this way: where that takes less time, for any number of images.
func takesDots(p *geometry.Shape) bool {
	if p.OutH()*p.OutW() == 1 {
		return false
	}
	return dots.Of(p, geometry.ToWeight, func() bool {
		many := *p
		many.N = manyImages
		m, kg := patchesOf(&many, geometry.ToWeight, p.C), p.K/p.GroupCount()
		d := newDotted(&m, kg)
		if d.sums*p.GroupCount() > mostSums {
			return false
		}
		m = patchesOf(&many, geometry.ToWeight, channelsOf(p))
		kept, packed := d.terms(), m.deepTerms(kg)
		return Rates.Cycles(&kept) < Rates.Cycles(&packed)
	})
}

// scratch is the room beside copies: for sums and their totals, and images side by side.
func (d *dotted) scratch() int {
	n := d.p.GroupCount()*d.sums*(d.lanes+1) + kernel.Block
	if d.side.images > 1 {
		n += d.side.elems(d.kg) + d.tallElems(&d.side)
	}
	return n
}

// gradWeight writes or adds the gradient of the weights to dw.
func (d *dotted) gradWeight(x, dy, dw, scratch []float32, accumulate bool) {
	const line = 4 * kernel.Block
	cut := func(n int) (part []float32) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	p, groups := d.p, d.p.GroupCount()
	room := cut(d.copies())
	cut(int(-uintptr(unsafe.Pointer(&scratch[0])) % line / 4))
	sums, totals := cut(groups*d.sums*d.lanes), cut(d.sums)
	clear(sums)
	d.each(x, room, func(c piece, x []float32) {
		for g := range groups {
			x, dy, sums := x[g*d.rows*d.line:], dy[(c.first*p.K+g*d.kg)*d.pixels:], sums[g*d.sums*d.lanes:]
			if d.side.images > 1 {
				d.beside(c.images, x, dy, sums, scratch)
			} else {
				d.apart(c.images, x, dy, sums)
			}
		}
	})
	if !accumulate {
		clear(dw[:p.K*d.rows])
	}
	for g := range groups {
		elementwise.RowSums(d.sums, d.lanes, sums[g*d.sums*d.lanes:], totals)
		d.total(totals, dw[g*d.kg*d.rows:])
	}
}

// total adds the totals of a group's sums to dw.
func (d *dotted) total(totals, dw []float32) {
	d.EachTile(func(t direct.DotTile) {
		d.Sum(t, totals, dw, d.rows, 1)
		totals = totals[t.Sums():]
	})
}

// window is images of so many pixels each.
func (d *dotted) window(images, pixels int) direct.Window {
	return direct.Window{Rows: images, Cols: 1, Vectors: pixels / d.lanes, Tail: pixels % d.lanes, DYRow: d.p.K * d.pixels, XRow: d.between}
}

// parts is how many parts of so many pixels are worked on one after the other, each of whole vectors but the last.
func (d *dotted) parts(pixels int) int { return kernel.CeilDiv(pixels, nearVectors*kernel.Block) }

// apart adds the products of images as they lie: of several, or of part of one.
func (d *dotted) apart(images int, x, dy, sums []float32) {
	parts, whole, together := d.parts(d.pixels), d.pixels/d.lanes, d.together()
	for i := 0; i < images; i += together {
		var next ahead
		for part := range parts {
			first, end := part*whole/parts*d.lanes, (part+1)*whole/parts*d.lanes
			if part == parts-1 {
				end = d.pixels
			}
			w := d.window(min(together, images-i), end-first)
			if behind := i + together; behind < images && parts == 1 && d.fetches() {
				next = ahead{
					tiles: d.tilesOfGroup(), images: min(together, images-behind),
					dy: operand{dy[behind*w.DYRow:], w.DYRow, d.kg * d.pixels}, x: operand{x[behind*w.XRow:], w.XRow, d.rows * d.line},
				}
			}
			d.tiles(&w, direct.Matrix{Data: dy[i*w.DYRow+first:], Line: d.pixels}, direct.Matrix{Data: x[i*w.XRow+first:], Line: d.line}, sums, &next)
		}
	}
}

// far reports whether images come from far away.
func (d *dotted) far() bool {
	return d.p.N*d.p.GroupCount()*(d.kg+d.rows)*d.pixels > cost.SharedElems
}

// fetches reports whether images are prefetched while those before are multiplied: with narrow vectors, for whose window it pays to be small.
func (d *dotted) fetches() bool { return d.lanes < kernel.Block && d.inPlace && d.far() }

// together is how many images a window has.
func (d *dotted) together() int {
	pixels := nearVectors * kernel.Block
	if d.fetches() {
		pixels = min(pixels, windowElems/(d.kg+d.rows))
	}
	return max(1, pixels/d.pixels)
}

// beside adds the products of images of a few pixels, whose rows are copied side by side.
func (d *dotted) beside(images int, x, dy, sums, room []float32) {
	wide, tall := room[:d.side.elems(d.kg)], room[d.side.elems(d.kg):]
	for i := 0; i < images; i += d.side.images {
		count := min(d.side.images, images-i)
		a, b := direct.Matrix{Data: wide, Line: d.side.line}, direct.Matrix{Data: x[i*d.between:], Line: d.line}
		d.side.gather(d.kg, count, d.p.K*d.pixels, dy[i*d.p.K*d.pixels:], wide)
		if d.inPlace {
			d.side.gather(d.rows, count, d.between, b.Data, tall)
			b = direct.Matrix{Data: tall, Line: d.side.line}
		}
		w := d.window(1, count*d.pixels)
		d.tiles(&w, a, b, sums, new(ahead))
	}
}

// tilesOfGroup is how many tiles a group has.
func (d *dotted) tilesOfGroup() int {
	tiles, _, _ := d.Cost()
	return int(tiles)
}

// tiles adds the products of a window, and prefetches the next one.
func (d *dotted) tiles(w *direct.Window, dy, x direct.Matrix, sums []float32, next *ahead) {
	d.EachTile(func(t direct.DotTile) {
		next.fetch()
		d.Keep(t, w, dy, x, sums)
		sums = sums[t.Sums()*d.lanes:]
	})
}

// terms counts what the gradient does beside copies of patches.
func (d *dotted) terms() (t cost.Terms) {
	groups := float64(d.p.GroupCount())
	tiles, step, sums := d.Cost()
	windows, rows, pixels := d.p.N*d.parts(d.pixels), d.p.N, d.pixels
	if n := d.side.images; n > 1 {
		windows = kernel.CeilDiv(d.p.N, n)
		rows, pixels = windows, n*d.pixels
		copied := d.kg
		if d.inPlace {
			copied += d.rows
		}
		t[deepVectors] = groups * float64(d.p.N*copied*kernel.CeilDiv(d.pixels, d.lanes)) * d.shareOfCopy()
	} else if together := d.together(); together > 1 {
		windows = kernel.CeilDiv(d.p.N, together)
	}
	vectors := float64(rows * kernel.CeilDiv(pixels, d.lanes))
	t[keptSteps] = groups * vectors * step
	t[keptVectors] = groups * vectors * float64(d.kg+d.rows)
	if d.far() {
		t[keptFar] = t[keptVectors]
	}
	t[keptRows] = groups * tiles * float64(rows*d.parts(pixels))
	t[keptCalls] = groups * tiles * float64(windows)
	t[keptSums] = groups * sums
	return t
}

// ahead is images that are prefetched while so many tiles are multiplied: cores do not foresee the short rows of several images. They forget what
// is asked for at once beyond a few lines, so each tile asks for its share.
type ahead struct {
	tiles, done, images int
	dy, x               operand
}

// operand is what a group has of images, so many elements of each, which lie so many apart.
type operand struct {
	data           []float32
	between, elems int
}

// fetch prefetches the share of one tile.
func (a *ahead) fetch() {
	if a.images == 0 {
		return
	}
	image := a.dy.elems + a.x.elems
	from, end := a.images*image*a.done/a.tiles, a.images*image*(a.done+1)/a.tiles
	for a.done++; from < end; {
		i, at, o := from/image, from%image, &a.dy
		if at >= o.elems {
			at, o = at-o.elems, &a.x
		}
		n := min(o.elems-at, end-from)
		gemm.FetchRows(1, n, &o.data[i*o.between+at], 0, 0)
		from += n
	}
}
