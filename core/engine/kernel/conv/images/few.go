package images

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Gradients of weights of a few channels, as groups have them, would leave lanes of channels empty. So images are in the lanes here,
// too: the products of every channel of dy with every one of x are, for each tap, sums of pairs of vectors over pixels and images.

// few is such a gradient.
type few struct {
	direct.Dots
	p      *geometry.Shape
	x, dy  wide
	lanes  int // images of a block
	most   int // in any block
	taps   []tap
	places []float32 // of pairs of vectors, tap by tap
}

// wide is x or dy, of one group: [channels][pitch][images].
type wide struct {
	plane
	channels, pitch int
}

// tap is one that sees the image, from some rows and columns of pixels.
type tap struct {
	number        int32
	rows, columns int32 // how many
	dy, x         int32 // the first pixel, and what it sees
	before        int32 // pixels of the taps before it
}

const tapElems = int(unsafe.Sizeof(tap{}) / 4)

// leastPairs is how many pairs of vectors a sum has at least, if there are so many images and they stay in L2, where each block of images adds
// up its own.
const leastPairs = 128

func newFew(p *geometry.Shape) few {
	c := few{p: p, x: newWide(p.H, p.W, p.C, p.GroupCount()), dy: newWide(p.OutH(), p.OutW(), p.K, p.GroupCount())}
	c.Dots = direct.NewDots(c.dy.channels, c.x.channels, p.StrideW == 1)
	lanes, vectors := kernel.Lanes(), 1
	if !c.Keeps() {
		vectors = min(max(2, kernel.CeilDiv(leastPairs, c.dy.pixels())), max(1, 2*mostElems/lanes/(c.x.pixels()*c.x.channels+c.dy.pixels()*c.dy.channels)))
	}
	c.most = lanes * min(vectors, kernel.CeilDiv(p.N, lanes))
	c.x.spread(c.most)
	c.dy.spread(c.most)
	return c
}

func newWide(h, w, channels, groups int) wide {
	return wide{plane: plane{h, w, channels * h * w}, channels: channels / groups}
}

// spread sets the pitch for blocks of so many images: sets of the L1 cache repeat, so channels must not be multiples of these apart.
func (s *wide) spread(images int) {
	const sets = 2048
	if s.pitch = s.pixels(); 4*s.pitch*images%sets == 0 && s.channels > 1 {
		s.pitch++
	}
}

// elems is the room for so many images, with what transposing writes beyond the end.
func (s *wide) elems(images int) int {
	return s.channels*s.pitch*images + kernel.Lanes()*images
}

// load transposes a group's channels of so many images.
func (s *wide) load(images int, src, dst []float32) {
	n, planes, lanes := s.pixels(), s.channels, kernel.Lanes()
	if s.pitch == n {
		n, planes = n*planes, 1
	}
	for i := range planes {
		for image := 0; image < images; image += lanes {
			gemm.TransposeStrided(lanes, lanes, n, src[image*s.between+i*n:], s.between, dst[i*s.pitch*images+image:], images)
		}
	}
}

// eachTap calls f for each tap that sees the image.
func (c *few) eachTap(f func(t tap)) {
	p, before := c.p, 0
	for r := range p.R {
		down := r*p.DilationH() - p.PadH
		top, bottom := seers(down, p.StrideH, p.H, 0, c.dy.h)
		for s := range p.S {
			right := s*p.DilationW() - p.PadW
			left, end := seers(right, p.StrideW, p.W, 0, c.dy.w)
			if top >= bottom || left >= end {
				continue
			}
			f(tap{
				number: int32(r*p.S + s), rows: int32(bottom - top), columns: int32(end - left), dy: int32(top*c.dy.w + left),
				x: int32((top*p.StrideH+down)*p.W + left*p.StrideW + right), before: int32(before),
			})
			before += (bottom - top) * (end - left)
		}
	}
}

// counts is how many taps there are, and how many pixels see the image through them.
func (c *few) counts() (taps, pixels int) {
	c.eachTap(func(t tap) {
		taps++
		pixels += int(t.rows * t.columns)
	})
	return taps, pixels
}

// sums is how many vectors of sums are kept.
func (c *few) sums(taps int) int {
	if !c.Keeps() {
		return 0
	}
	_, _, n := c.Cost()
	return int(n) * taps
}

func (c *few) scratch() int {
	taps, pixels := c.counts()
	return taps*tapElems + c.StepElems(pixels*c.most/kernel.Lanes()) + c.x.elems(c.most) + c.dy.elems(c.most) + c.sums(taps)*(kernel.Block+1) + kernel.Block
}

// gradWeight writes or adds the gradient of the weights to dw, of images that fill vectors.
func (c *few) gradWeight(x, dy, dw, scratch []float32, accumulate bool) {
	p := c.p
	cut := func(n int) (part []float32) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	if !accumulate {
		clear(dw[:p.K*p.PatchSize()])
	}
	taps, pixels := c.counts()
	if taps == 0 {
		return
	}
	c.taps = unsafe.Slice((*tap)(unsafe.Pointer(&cut(taps * tapElems)[0])), taps)
	taps = 0
	c.eachTap(func(t tap) {
		c.taps[taps] = t
		taps++
	})
	c.places = cut(c.StepElems(pixels * c.most / kernel.Lanes()))
	from, to := cut(c.x.elems(c.most)), cut(c.dy.elems(c.most))
	if !c.Keeps() {
		c.addBlocks(x, dy, dw, from, to)
		return
	}
	const line = 4 * kernel.Block
	cut(int(-uintptr(unsafe.Pointer(&scratch[0])) % line / 4))
	n := c.sums(taps)
	sums := cut(n * kernel.Block)
	c.lanes = c.most
	for g := range p.GroupCount() {
		clear(sums)
		for first := 0; first < p.N; first += c.lanes {
			c.load(g, first, x, dy, from, to)
			c.keep(from, to, sums)
		}
		elementwise.RowSums(n, kernel.Block, sums, scratch[:n])
		c.sum(scratch, dw[g*c.dy.channels*p.PatchSize():])
	}
}

// load transposes a group of a block of images.
func (c *few) load(g, first int, x, dy, from, to []float32) {
	c.x.load(c.lanes, x[first*c.x.between+g*c.x.channels*c.x.pixels():], from)
	c.dy.load(c.lanes, dy[first*c.dy.between+g*c.dy.channels*c.dy.pixels():], to)
}

// window is the pairs of vectors of a tap.
func (c *few) window(t *tap) direct.Window {
	p := c.p
	return direct.Window{
		Rows: int(t.rows), Cols: int(t.columns), Vectors: c.lanes / kernel.Lanes(),
		DYRow: c.dy.w * c.lanes, DYCol: c.lanes, XRow: p.StrideH * p.W * c.lanes, XCol: p.StrideW * c.lanes,
	}
}

// matrices are the channels of a block, as a tap sees them.
func (c *few) matrices(t *tap, from, to []float32) (dy, x direct.Matrix) {
	return direct.Matrix{Data: to[int(t.dy)*c.lanes:], Line: c.dy.pitch * c.lanes}, direct.Matrix{Data: from[int(t.x)*c.lanes:], Line: c.x.pitch * c.lanes}
}

// addBlocks adds the products of block after block to dw.
func (c *few) addBlocks(x, dy, dw, from, to []float32) {
	p := c.p
	for first := 0; first < p.N; first += c.lanes {
		if lanes := min(c.most, p.N-first); lanes != c.lanes {
			c.lanes = lanes
			for i := range c.taps {
				t := &c.taps[i]
				c.SetSteps(c.steps(t), c.window(t))
			}
		}
		for g := range p.GroupCount() {
			c.load(g, first, x, dy, from, to)
			dw := dw[g*c.dy.channels*p.PatchSize():]
			for i := range c.taps {
				t := &c.taps[i]
				a, b := c.matrices(t, from, to)
				w := c.window(t)
				c.Add(w.Pairs(), c.steps(t), a, b, dw[t.number:], p.PatchSize(), p.R*p.S)
			}
		}
	}
}

// steps is where the pairs of vectors of a tap are noted.
func (c *few) steps(t *tap) []float32 {
	return c.places[c.StepElems(int(t.before)*c.lanes/kernel.Lanes()):]
}

// keep adds the products of a block to the vectors of sums: tile by tile, whose channels stay in L1 for all taps.
func (c *few) keep(from, to, sums []float32) {
	c.EachTile(func(tile direct.DotTile) {
		for i := range c.taps {
			t := &c.taps[i]
			w := c.window(t)
			a, b := c.matrices(t, from, to)
			c.Keep(tile, &w, a, b, sums)
			sums = sums[tile.Sums()*kernel.Block:]
		}
	})
}

// sum adds the totals of all sums to dw.
func (c *few) sum(totals, dw []float32) {
	c.EachTile(func(tile direct.DotTile) {
		for i := range c.taps {
			c.Sum(tile, totals, dw[c.taps[i].number:], c.p.PatchSize(), c.p.R*c.p.S)
			totals = totals[tile.Sums():]
		}
	})
}

// fewFaster is what takesFew says of a shape.
var fewFaster geometry.Memo[bool]

// takesFew reports whether images that fill vectors are computed this way: where that takes less time, for any number of images.
func takesFew(p *geometry.Shape) bool {
	return fewFaster.Of(p, geometry.ToWeight, func() bool {
		const images = 32
		q := *p
		q.N = images
		a, b := newFew(&q), newWeights(&q)
		if a.x.pixels()*a.x.channels+a.dy.pixels()*a.dy.channels > mostElems/kernel.Lanes() {
			return false
		}
		var t, u cost.Terms
		a.count(&t)
		b.count(&u)
		return Rates.Cycles(&t) < Rates.Cycles(&u)
	})
}
