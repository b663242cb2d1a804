package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Gradients of weights sum over images and pixels, so here channels are in the lanes: those of dy, with x's as the rows of
// tiles, or the other way round, whichever fills tiles better. Both sides are packed once; a tap then multiplies the pixels
// that it sees of one side with those of the other.

// longestSum bounds what adds up in one register; longer sums round visibly worse.
const longestSum = 512

// side is x or dy, of one group: panels of some channels, [panels][images][rows][columns][channels of a panel].
type side struct {
	plane
	channels  int
	width     int  // of its panels in channels
	padded    bool // of its last panel, too
	rows      int  // of a block, at most
	low, high int  // those of this block
	packed    []float32
}

// elems is the room for the panels of so many images, without what packing writes beyond the end.
func (s *side) elems(images int) int { return s.panels() * s.width * images * s.rows * s.w }

func (s *side) panels() int { return kernel.CeilDiv(s.channels, s.width) }

// weights is the gradient of the weights of a group.
type weights struct {
	p      *geometry.Shape
	lanes  int
	turned bool // x's channels are in the lanes
	byTaps bool // tiles beside each other are taps of a row of the filter, see taps.go
	x, dy  side
	images int // of a block
	rows   int // of dy in a block
}

func newWeights(p *geometry.Shape) weights {
	g := weights{p: p, lanes: kernel.Lanes()}
	g.x = side{plane: plane{p.H, p.W, p.C * p.H * p.W}, channels: p.C / p.GroupCount()}
	g.dy = side{plane: plane{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW()}, channels: p.K / p.GroupCount()}
	straight, turned := tileCycles(g.x.channels, g.dy.channels), tileCycles(g.dy.channels, g.x.channels)
	if g.fitsTaps() && g.tapCycles() < min(straight, turned) {
		g.turned, g.byTaps = true, true
	} else {
		g.turned = turned < straight
	}
	rows, columns := g.sides()
	rows.width = gemm.EvenRows(rows.channels, maxRows)
	columns.width, columns.padded = g.lanes, true
	if g.byTaps {
		columns.width = g.tapWidth()
	}
	g.cut()
	return g
}

// sides are what gives the rows of tiles, and what gives their lanes.
func (g *weights) sides() (rows, columns *side) {
	if g.turned {
		return &g.dy, &g.x
	}
	return &g.x, &g.dy
}

// cut sets the size of blocks: some images, or some rows of one. It does not depend on how many images there are.
func (g *weights) cut() {
	for g.rows = g.dy.h; ; g.rows = (g.rows + 1) / 2 {
		g.dy.rows = g.rows
		g.x.rows = min(g.x.h, (g.rows-1)*g.p.StrideH+(g.p.R-1)*g.p.DilationH()+1)
		if g.rows == 1 || g.x.elems(1)+g.dy.elems(1) <= mostElems {
			break
		}
	}
	g.images = 1
	if g.rows == g.dy.h {
		g.images = max(1, min(mostElems/(g.x.elems(1)+g.dy.elems(1)), longestSum/g.dy.pixels()))
	}
}

// taps of a filter.
func (g *weights) taps() int { return g.p.R * g.p.S }

// sumElems is the room for the sums, [channels of the rows][taps][channels in the lanes].
func (g *weights) sumElems() int {
	rows, _ := g.sides()
	return rows.channels * g.p.R * g.slots() * g.lineElems()
}

// turnedElems is the room for the weights in their order, with what transposing writes beyond them.
func (g *weights) turnedElems() int {
	n := g.x.channels * g.taps()
	if g.turned {
		return g.dy.channels*n + g.lanes*(g.taps()+1)
	}
	return (g.dy.channels+g.lanes)*n + g.lanes
}

// panelElems is the room for both sides, with what packing writes beyond each.
func (g *weights) panelElems() int {
	return g.x.elems(g.images) + g.dy.elems(g.images) + 2*g.lanes*(g.lanes+1)
}

func weightScratch(p *geometry.Shape) int {
	g, n := newWeights(p), 0
	if takesFew(p) && p.N >= kernel.Lanes() {
		c := newFew(p)
		n = c.scratch()
	}
	return max(n, g.sumElems()+max(g.panelElems(), g.turnedElems()))
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	if whole := p.N - p.N%kernel.Lanes(); whole > 0 && takesFew(p) {
		q := *p
		q.N = whole
		c := newFew(&q)
		c.gradWeight(x, dy, dw, scratch, accumulate)
		if q.N = p.N - whole; q.N == 0 {
			return
		}
		gradWeight(&q, x[whole*c.x.between:], dy[whole*c.dy.between:], dw, scratch, true)
		return
	}
	gradWeight(p, x, dy, dw, scratch, accumulate)
}

// gradWeight is GradWeight with channels in the lanes.
func gradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	g := newWeights(p)
	sums, rest := scratch[:g.sumElems()], scratch[g.sumElems():]
	size := g.dy.channels * g.x.channels * g.taps()
	for i := range p.GroupCount() {
		clear(sums)
		g.sum(x[i*g.x.channels*g.x.pixels():], dy[i*g.dy.channels*g.dy.pixels():], sums, rest)
		g.store(sums, rest)
		if to := dw[i*size:][:size]; accumulate {
			elementwise.AddTo(to, rest[:size])
		} else {
			copy(to, rest)
		}
	}
}

// store writes the sums in the order of the weights.
func (g *weights) store(sums, to []float32) {
	taps := g.taps()
	if !g.turned {
		n := g.x.channels * taps
		gemm.TransposeStrided(g.lanes, n, g.dy.channels, sums, g.dy.panels()*g.lanes, to, n)
		return
	}
	line := g.lineElems()
	for k := range g.dy.channels {
		from := sums[k*g.p.R*g.slots()*line:]
		g.closeUp(from)
		gemm.TransposeStrided(min(line, g.lanes), taps, g.x.channels, from, line, to[k*taps*g.x.channels:], taps)
	}
}

// sum adds the products of all images.
func (g *weights) sum(x, dy, sums, scratch []float32) {
	n := g.x.elems(g.images) + g.lanes*(g.lanes+1)
	g.x.packed, g.dy.packed = scratch[:n], scratch[n:]
	for first := 0; first < g.p.N; first += g.images {
		images := min(g.images, g.p.N-first)
		for row := 0; row < g.dy.h; row += g.rows {
			g.dy.low, g.dy.high = row, min(row+g.rows, g.dy.h)
			g.x.low = max(0, row*g.p.StrideH-g.p.PadH)
			g.x.high = max(g.x.low, min(g.x.h, (g.dy.high-1)*g.p.StrideH-g.p.PadH+(g.p.R-1)*g.p.DilationH()+1))
			g.x.pack(images, g.lanes, x[first*g.x.between:])
			g.dy.pack(images, g.lanes, dy[first*g.dy.between:])
			if g.byTaps {
				g.addTaps(images, sums)
			} else {
				g.add(images, sums)
			}
		}
	}
}

// pack packs the block's rows of so many images.
func (s *side) pack(images, lanes int, src []float32) {
	pixels, to := (s.high-s.low)*s.w, s.packed
	if pixels == 0 {
		return
	}
	for ch := 0; ch < s.channels; ch += s.width {
		channels, width := min(s.width, s.channels-ch), s.widthAt(ch)
		if width == narrow {
			lanes = narrow
		}
		for i := range images {
			gemm.TransposeStrided(lanes, channels, pixels, src[i*s.between+ch*s.pixels()+s.low*s.w:], s.pixels(), to, width)
			to = to[width*pixels:]
		}
	}
}

// widthAt is the width of the panel that begins with a channel.
func (s *side) widthAt(ch int) int {
	if s.padded {
		return s.width
	}
	return min(s.width, s.channels-ch)
}

// add adds the products of a block.
func (g *weights) add(images int, sums []float32) {
	p := g.p
	for r := range p.R {
		down := r*p.DilationH() - p.PadH
		top, bottom := seers(down, p.StrideH, g.x.h, g.dy.low, g.dy.high)
		for s := range p.S {
			right := s*p.DilationW() - p.PadW
			left, end := seers(right, p.StrideW, g.x.w, 0, g.dy.w)
			if top >= bottom || left >= end {
				continue
			}
			x := view{(top*p.StrideH+down-g.x.low)*g.x.w + left*p.StrideW + right, p.StrideH * g.x.w, p.StrideW}
			dy := view{(top-g.dy.low)*g.dy.w + left, g.dy.w, 1}
			g.addTap(images, bottom-top, end-left, x, dy, sums[(r*p.S+s)*g.lineElems():])
		}
	}
}

// lineElems is the sums of a tap of one row.
func (g *weights) lineElems() int {
	_, columns := g.sides()
	return columns.panels() * columns.width
}

// seers are those of the outputs [from, to) that see one of n inputs through a tap which is so far from them.
func seers(far, stride, n, from, to int) (first, end int) {
	return max(from, kernel.CeilDiv(max(0, -far), stride)), min(to, kernel.CeilDiv(max(0, n-far), stride))
}

// view is the pixels that a tap multiplies on one side: the first one, and how far they are from row to row and beside each other.
type view struct{ first, row, column int }

// addTap adds the products of rows×columns pixels of each image.
func (g *weights) addTap(images, rows, columns int, x, dy view, sums []float32) {
	const bytes = 4
	a, b := g.sides()
	va, vb := x, dy
	if g.turned {
		va, vb = dy, x
	}
	aPixels, bPixels := (a.high-a.low)*a.w, (b.high-b.low)*b.w
	line := g.lineElems()
	t := nestTile{ldc: bytes * g.taps() * line, bNext: bytes * images * bPixels * b.width, cNext: bytes * g.lanes}
	for ch := 0; ch < a.channels; ch += a.width {
		height := a.widthAt(ch)
		t.setLoops(
			loop{images, aPixels * height, bPixels * b.width},
			loop{rows, va.row * height, vb.row * b.width},
			loop{columns, va.column * height, vb.column * b.width},
		)
		t.a = &a.packed[ch*images*aPixels+va.first*height]
		t.b = &b.packed[vb.first*b.width]
		t.c = &sums[ch*g.taps()*line]
		t.runTiles(g.lanes, height, b.panels())
	}
}
