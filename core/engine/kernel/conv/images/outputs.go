package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Few images of small planes fill neither vectors of images nor vectors of pixels. With outputs in the lanes and pixels in the rows of tiles, any number
// of images does. A sum adds its products in the same order as with images in lanes, and so has the same bits.

// mostViews bounds the elements that the taps see of an image, so that they stay in the L2 cache.
const mostViews = 1 << 17

// mostPhases bounds the phases of gradients of inputs.
const mostPhases = 9

// band is panels of as many outputs as vectors have lanes, from the first on. The last may have fewer.
type band struct{ first, lanes, panels int }

// bands are those of whole vectors, and of a narrow one for the outputs that are left.
func (c *pass) bands() [2]band {
	lanes := kernel.Lanes()
	wide := band{0, lanes, c.outs / lanes}
	rest := c.outs % lanes
	if rest > narrow || rest > 0 && lanes == narrow {
		wide.panels, rest = wide.panels+1, 0
	}
	return [2]band{wide, {wide.panels * lanes, narrow, kernel.CeilDiv(rest, narrow)}}
}

// laneOuts is the outputs with those that fill up vectors.
func (c *pass) laneOuts() (n int) {
	for _, b := range c.bands() {
		n += b.panels * b.lanes
	}
	return n
}

// mostWeights bounds the weights of a group, which stay there, too.
const mostWeights = 1 << 18

// fitsOutputs reports whether outputs can be in the lanes: they fill half of the vectors, and what taps see stays near.
func (c *pass) fitsOutputs() bool {
	return c.p.StrideH*c.p.StrideW <= mostPhases && 2*c.outs >= c.laneOuts() && (c.grad || c.p.Stride1() || c.p.FitsTaps()) && c.weightElems() <= mostWeights && c.viewElems() <= mostViews
}

// byOutputs is what takesOutputs says of a shape.
var byOutputs geometry.Memo[bool]

// takesOutputs reports whether all images are computed with outputs in the lanes: where that takes less time.
func (c *pass) takesOutputs() bool {
	const most = 4 * kernel.Block // of more images, all take the same
	q := *c.p
	q.Batch = 0
	return byOutputs.OfBatch(&q, most, c.direction(), func(p *geometry.Shape) bool {
		c := newPass(p, c.direction())
		if c.seesOnePixel() || !c.fitsOutputs() {
			return false
		}
		return c.outputCycles() < c.otherCycles()
	})
}

// outputCycles is how long the images take with outputs in the lanes.
func (c *pass) outputCycles() float64 {
	var t cost.Terms
	c.countOutputs(&t)
	t[directions]++
	t = t.Times(float64(c.p.GroupCount()))
	return Rates.Cycles(&t)
}

// otherCycles is how long they take with images in the lanes, or by another algorithm if they are too few.
func (c *pass) otherCycles() float64 {
	if c.p.N < narrow {
		return c.restCycles(c.p)
	}
	var t cost.Terms
	c.count(&t)
	t[directions]++
	t = t.Times(float64(c.p.GroupCount()))
	return Rates.Cycles(&t)
}

// viewElems is what the taps of all phases see.
func (c *pass) viewElems() (n int) {
	c.phases(func(h, w geometry.Phase) {
		v := c.newViews(h, w)
		n += v.elems()
	})
	return n
}

// weightElems is the room for the weights of a group, and for the bias, which one more channel has.
func (c *pass) weightElems() int {
	lanes := kernel.Lanes()
	return c.laneOuts()*(c.channels+1)*c.p.R*c.p.S + lanes*(lanes+1)
}

// phased reports whether a phase has only some of the pixels.
func (c *pass) phased() bool { return c.grad && !c.p.Stride1() }

// outputScratch is the elements that runOutputs needs.
func (c *pass) outputScratch() int {
	n := c.weightElems() + c.viewElems() + kernel.Block + c.laneOuts()*c.out.pixels() + kernel.Lanes()*(c.out.pixels()+kernel.Lanes())
	if c.phased() {
		n += c.laneOuts() * c.out.pixels()
	}
	return n + c.tableElems()
}

// outputs is a pass with outputs in the lanes.
type outputs struct {
	*pass
	phases  [mostPhases]views
	count   int
	taps    geometry.Taps // of strides
	weights []float32     // [panels][channels and one before them][taps][lanes]
	views   []float32     // of each phase
	sums    []float32     // of a phase, [panels][pixels][lanes]
	planes  []float32     // of all phases, or the same
	room    []float32
	bias    []float32 // of the group, or nil
}

// newOutputs cuts scratch.
func newOutputs(c *pass, scratch []float32) outputs {
	cut := func(n int) (part []float32) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	o := outputs{pass: c, weights: cut(c.weightElems()), views: cut(c.viewElems() + kernel.Block)}
	clear(o.views)
	at := 0
	c.phases(func(h, w geometry.Phase) {
		v := c.newViews(h, w)
		v.at = at
		elementwise.Fill(o.views[at:][:v.channel], 1)
		at += v.elems()
		o.phases[o.count] = v
		o.count++
	})
	if n := c.tableElems(); n > 0 {
		o.taps = geometry.NewTaps(c.p, false)
		o.taps.SetTables(cut(n))
	}
	o.sums = cut(c.laneOuts() * c.out.pixels())
	if o.planes = o.sums; c.phased() {
		o.planes = cut(len(o.sums))
		clear(o.planes)
	}
	o.room = scratch
	return o
}

// runOutputs computes all images of all groups, from weights that have as many elements for each.
func (c *pass) runOutputs(x, w, bias, y, scratch []float32) {
	o := newOutputs(c, scratch)
	for g := range c.p.GroupCount() {
		if bias != nil {
			o.bias = bias[g*c.outs:][:c.outs]
		}
		o.packLanes(w[g*c.outs*c.channels*c.p.R*c.p.S:])
		for n := range c.p.N {
			o.image(x[n*c.in.between+g*c.channels*c.in.pixels():], y[n*c.out.between+g*c.outs*c.out.pixels():])
		}
	}
}

// products of a sum, with those of the bias.
func (c *pass) products() int { return (c.channels + 1) * c.p.R * c.p.S }

// eachPanel calls f for the panels of outputs, with the first output and how many there are.
func (c *pass) eachPanel(f func(lanes, first, outs int)) {
	for _, b := range c.bands() {
		for i := range b.panels {
			first := b.first + i*b.lanes
			f(b.lanes, first, min(b.lanes, c.outs-first))
		}
	}
}

// packLanes writes the weights of a group. What it writes behind a panel belongs to the next.
func (o *outputs) packLanes(w []float32) {
	taps := o.p.R * o.p.S
	o.eachPanel(func(lanes, first, outs int) {
		panel := o.weights[first*o.products():]
		o.packPanel(lanes, first, outs, w, panel[taps*lanes:])
		clear(panel[:taps*lanes])
		if o.bias != nil {
			copy(panel, o.bias[first:][:outs])
		}
	})
}

func (o *outputs) packPanel(lanes, first, outs int, w, panel []float32) {
	taps := o.p.R * o.p.S
	if !o.grad {
		n := o.channels * taps
		gemm.TransposeStrided(lanes, outs, n, w[first*n:], n, panel, lanes)
		return
	}
	for k := range o.channels {
		gemm.TransposeStrided(lanes, outs, taps, w[(k*o.outs+first)*taps:], taps, panel[k*taps*lanes:], lanes)
	}
}

// image computes the outputs of a group of an image.
func (o *outputs) image(x, y []float32) {
	for i := range o.count {
		v := &o.phases[i]
		o.fill(v, x)
		o.multiply(v)
		if o.phased() {
			o.place(v)
		}
	}
	o.store(y)
}

// multiply adds up a phase's products, as many at a time as package im2col does, or all if by rows.
func (o *outputs) multiply(v *views) {
	pixels := v.pixels()
	first, chunk := 1, max(1, gemm.BlockK/(v.h.N*v.w.N))
	if o.bias != nil {
		if o.byRows {
			first, chunk = 0, o.channels+1
		} else {
			o.spreadBias(pixels)
		}
	}
	for ch := first; ch <= o.channels; ch += chunk {
		channels := min(chunk, o.channels+1-ch)
		var start *float32
		if ch == first && (o.bias == nil || o.byRows) {
			start = &geometry.NoBias[0]
		}
		for _, b := range o.bands() {
			if b.panels > 0 {
				o.multiplyBand(&b, v, ch, channels, start)
			}
		}
	}
}

// multiplyBand is multiply for some channels.
func (o *outputs) multiplyBand(b *band, v *views, ch, channels int, start *float32) {
	const bytes = 4
	p, pixels := o.p, v.pixels()
	t := nestTile{ldc: bytes * b.lanes, bias: start, bNext: bytes * o.products() * b.lanes, cNext: bytes * pixels * b.lanes}
	outer, middle := loop{channels, v.channel, p.R * p.S * b.lanes}, loop{v.h.N, v.row, v.h.EveryTap * p.S * b.lanes}
	if o.byRows {
		outer, middle = middle, outer
	}
	t.setLoops(outer, middle, loop{v.w.N, v.column, v.w.EveryTap * b.lanes})
	tap := v.h.FirstTap*p.S + v.w.FirstTap
	t.b = &o.weights[b.first*o.products()+(ch*p.R*p.S+tap)*b.lanes]
	height := tileHeight(pixels, b.panels)
	for i := 0; i < pixels; i += height {
		t.a = &o.views[v.at+ch*v.channel+v.first+i]
		t.c = &o.sums[b.first*pixels+i*b.lanes]
		t.runTiles(b.lanes, min(height, pixels-i), b.panels)
	}
}

// tileHeight is the pixels of a tile, which takes one panel at a time if it is high, or several.
func tileHeight(pixels, panels int) int {
	high, low := gemm.EvenRows(pixels, maxRows), gemm.EvenRows(pixels, fewRows)
	if tileSteps(pixels, high, panels) <= tileSteps(pixels, low, panels) {
		return high
	}
	return low
}

// tileSteps is the cycles of a product of each sum.
func tileSteps(pixels, height, panels int) float64 {
	return float64(kernel.CeilDiv(pixels, height)*panels) * stepCycles(height, panels)
}

// spreadBias sets all sums to the bias.
func (o *outputs) spreadBias(pixels int) {
	o.eachPanel(func(lanes, first, outs int) {
		for i := range pixels {
			copy(o.sums[first*pixels+i*lanes:], o.bias[first:][:outs])
		}
	})
}

// place moves the sums of a phase to where its pixels are.
func (o *outputs) place(v *views) {
	downwards, beside := o.apart()
	o.eachPanel(func(lanes, first, _ int) {
		from, to := o.sums[first*v.pixels():], o.planes[first*o.out.pixels():]
		for i := range v.h.Pixels {
			at := (v.h.Pixel+i*downwards)*o.out.w + v.w.Pixel
			copyVectors(lanes, v.w.Pixels, from[i*v.w.Pixels*lanes:], to[at*lanes:], beside)
		}
	})
}

// copyVectors copies n vectors to places so many vectors apart.
func copyVectors(lanes, n int, from, to []float32, apart int) {
	if lanes == narrow {
		for i := range n {
			*(*[narrow]float32)(to[i*apart*narrow:]) = *(*[narrow]float32)(from[i*narrow:])
		}
		return
	}
	geometry.CopyVectors(n, 1, &from[0], 4*lanes, &to[0], 4*apart*lanes)
}

// store transposes the outputs.
func (o *outputs) store(y []float32) {
	n := o.out.pixels()
	o.eachPanel(func(lanes, first, outs int) {
		from, to := o.planes[first*n:], y[first*n:]
		if outs == lanes && n >= lanes {
			storeVectors(lanes, n, from, to, n)
			return
		}
		gemm.TransposeStrided(lanes, n, outs, from, lanes, o.room, n)
		copy(to[:outs*n], o.room)
	})
}
