package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Where x's channels fill one vector, or half of one, tiles of weight gradients that multiply the same pixels of dy are those of the taps of a row
// of the filter: they see pixels of x that lie beside each other. Where half a vector is enough, a whole one has two of these pixels, and the sums of
// two taps.

// fitsTaps reports whether taps can be beside each other.
func (g *weights) fitsTaps() bool { return g.p.S > 1 && g.x.channels <= g.lanes }

// tapWidth is the lanes of a tap.
func (g *weights) tapWidth() int {
	if g.x.channels <= narrow && g.p.DilationW() == 1 {
		return narrow
	}
	return g.lanes
}

// slots is the places of a row of the filter among the sums: its taps, and one that is left over where these make pairs.
func (g *weights) slots() int {
	if g.byTaps {
		return kernel.CeilDiv(g.p.S, g.tapsOfVector()) * g.tapsOfVector()
	}
	return g.p.S
}

// tapsOfVector is how many taps a vector has.
func (g *weights) tapsOfVector() int { return g.lanes / g.tapWidth() }

// tapCycles is tileCycles of a tap where they are beside each other.
func (g *weights) tapCycles() float64 {
	vectors := kernel.CeilDiv(g.p.S, g.tapsOfVector())
	return tileCycles(g.dy.channels, vectors*g.lanes) / float64(g.p.S)
}

// columns finds runs of pixels of dy which see x through the same taps of a row.
func (g *weights) columns() (r runs) {
	p := g.p
	r.between(&geometry.Axis{In: p.W, Out: g.dy.w, Stride: p.StrideW, Taps: p.S, First: -p.PadW, Step: p.DilationW()}, 0, g.dy.w)
	return r
}

// addTaps adds the products of a block.
func (g *weights) addTaps(images int, sums []float32) {
	p, columns := g.p, g.columns()
	for r := range p.R {
		down := r*p.DilationH() - p.PadH
		top, bottom := seers(down, p.StrideH, g.x.h, g.dy.low, g.dy.high)
		if top >= bottom {
			continue
		}
		for _, u := range columns.list() {
			x := view{(top*p.StrideH+down-g.x.low)*g.x.w + u.at*p.StrideW - p.PadW + u.first*p.DilationW(), p.StrideH * g.x.w, p.StrideW}
			dy := view{(top-g.dy.low)*g.dy.w + u.at, g.dy.w, 1}
			g.addRun(images, bottom-top, &u, x, dy, sums[(r*g.slots()+u.first)*g.x.width:])
		}
	}
}

// addRun adds the products of some rows of a run of pixels of each image.
func (g *weights) addRun(images, rows int, u *run, x, dy view, sums []float32) {
	const bytes = 4
	width, each := g.x.width, g.tapsOfVector()
	aPixels, bPixels := (g.dy.high-g.dy.low)*g.dy.w, (g.x.high-g.x.low)*g.x.w
	vectors, rest := u.taps/each, u.taps%each
	if rest > 0 && u.first+u.taps == g.p.S && g.slots() > g.p.S { // the place that is left over is the next
		vectors, rest = vectors+1, 0
	}
	line := g.p.R * g.slots() * width
	t := nestTile{ldc: bytes * line, bNext: bytes * each * g.p.DilationW() * width, cNext: bytes * each * width}
	for ch := 0; ch < g.dy.channels; ch += g.dy.width {
		height := g.dy.widthAt(ch)
		t.setLoops(
			loop{images, aPixels * height, bPixels * width},
			loop{rows, dy.row * height, x.row * width},
			loop{u.n, dy.column * height, x.column * width},
		)
		t.a = &g.dy.packed[ch*images*aPixels+dy.first*height]
		t.b, t.c = &g.x.packed[x.first*width], &sums[ch*line]
		if vectors > 0 {
			t.runTiles(g.lanes, height, vectors)
		}
		if rest > 0 {
			at := vectors * each * width
			t.b, t.c = &g.x.packed[x.first*width+at], &sums[ch*line+at]
			t.runTiles(narrow, height, rest)
		}
	}
}

// closeUp moves the sums of a channel of dy over those places that are left over.
func (g *weights) closeUp(sums []float32) {
	from, to := g.slots()*g.x.width, g.p.S*g.x.width
	for r := 1; r < g.p.R && from > to; r++ {
		copy(sums[r*to:][:to], sums[r*from:])
	}
}
