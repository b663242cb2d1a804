package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution with vectors of sixteen pixels that cross the ends of rows, over views of x: planes of y are written as they lie.
// Images are computed two at a time, so that the last vectors of both, if their number is odd, are a pair of one tile.

const viewPair = 2

// fitsForwardViews reports whether forwardByViews can compute y: the views of a pair of images stay in L2.
func fitsForwardViews(p *geometry.Shape) bool {
	v := p.InputViews()
	return p.TakesViews() && v.Elems() <= viewElems/viewPair
}

// takesForwardViews reports whether y is computed by views: where that takes less time, for any number of images.
func takesForwardViews(p *geometry.Shape) bool {
	if kernel.Wide() && kernel.Halves() || !fitsForwardViews(p) || hasFewWeights(p) {
		return false
	}
	return viewed.Of(p, geometry.ToOutput, func() bool {
		pair := *p
		pair.N = viewPair
		views, frames := viewForwardTerms(&pair), forwardTerms(&pair)
		return Rates.Cycles(&views) < Rates.Cycles(&frames)
	})
}

func forwardViewScratch(p *geometry.Shape) int {
	v := p.InputViews()
	return viewPair*v.Elems() + kernel.Block + v.MaskElems() + tapElems(p, v.Channels, p.K/p.GroupCount())
}

// forwardByViews is Forward.
func forwardByViews(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	v, kg, plane := p.InputViews(), p.K/p.GroupCount(), p.OutH()*p.OutW()
	c := call{TileShape: gemm.TileOf(kernel.Block), out: kg, oh: 1, ow: plane, row: plane, plane: plane, crosses: true}
	c.Channels = v.Channels
	images, rest := scratch[:viewPair*v.Elems()+kernel.Block], scratch[viewPair*v.Elems()+kernel.Block:]
	clear(images)
	v.SetMasks(rest[:v.MaskElems()])
	rest = c.reserve(p.R, p.S, rest[v.MaskElems():])
	for i := range c.taps {
		r, ch, s := i/p.S/v.Channels, i/p.S%v.Channels, i%p.S
		c.index[r*p.S+s], c.taps[i] = int32(r*p.S+s), int32(4*v.At(ch, r, s))
	}
	for g := range p.GroupCount() {
		packTaps(&c, w[g*kg*p.PatchSize():], p.PatchSize(), p.R*p.S, rest)
		if bias != nil {
			c.bias = bias[g*kg:][:kg]
		}
		for n := 0; n < p.N; n += viewPair {
			count := min(viewPair, p.N-n)
			for b := range count {
				v.Fill(x[((n+b)*p.C+g*v.Channels)*p.H*p.W:], images[b*v.Elems():])
			}
			c.runImages(count, v.Elems(), p.K*plane, images, y[(n*p.K+g*kg)*plane:])
		}
	}
}

// runImages convolves one or two images, which lie between apart, and step in y.
func (c *call) runImages(count, between, step int, images, y []float32) {
	vectors := kernel.CeilDiv(c.ow, c.Lanes)
	for b := range count {
		pairs := sweep{count: vectors / 2, pair: [2]vector{c.vector(0, 0), c.vector(0, 1)}, fromNext: 2 * c.Lanes, toNext: 2 * c.Lanes, rows: 1}
		if c.ow%c.Lanes > 0 && vectors%2 == 0 { // the last pair is not whole
			pairs.count--
			c.sweep(sweep{count: 1, pair: [2]vector{c.vector(0, vectors-2), c.vector(0, vectors-1)}, rows: 1}, images[b*between:], y[b*step:])
		}
		c.sweep(pairs, images[b*between:], y[b*step:])
	}
	if vectors%2 > 0 {
		last := c.vector(0, vectors-1)
		other := vector{last.from, last.to, 0}
		if count == 2 {
			other = vector{last.from + between, last.to + step, last.n}
		}
		c.sweep(sweep{count: 1, pair: [2]vector{last, other}, rows: 1}, images, y)
	}
}
