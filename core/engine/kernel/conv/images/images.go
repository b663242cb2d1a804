package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// narrow is the fewest lanes of a vector.
const narrow = 8

// Takes reports whether a convolution can be computed. Those of one channel have kernels of their own elsewhere.
func Takes(p *geometry.Shape) bool {
	const mostTaps = maxRuns/2 - 1
	// Package im2col cuts sums elsewhere for filters of more taps and for rows of more pixels.
	const mostPixels = 384
	return kernel.Current() != kernel.Generic && p.C > p.GroupCount() && max(p.R, p.S) <= mostTaps && p.R*p.S <= gemm.BlockK && max(p.W, p.OutW()) <= mostPixels
}

// mostElems bounds the pixels that a block holds in vectors, so that they stay in the L2 cache.
const mostElems = 1 << 17

// pass is a convolution of one group: planes of outputs as sums over channels. The gradient of the input is one, too, whose
// outputs are dx and whose channels those of dy.
type pass struct {
	p              *geometry.Shape
	grad           bool
	byRows         bool // sums take row after row of the taps, each of all channels, and start at the bias, as package direct does
	channels, outs int
	in, out        plane
}

// plane is the planes on one side: of h×w pixels, and so many elements from one image to the next.
type plane struct{ h, w, between int }

func (s *plane) pixels() int { return s.h * s.w }

// newPass is the pass of a group in a direction.
func newPass(p *geometry.Shape, d geometry.Direction) pass {
	x, y := plane{p.H, p.W, p.C * p.H * p.W}, plane{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW()}
	cg, kg := p.C/p.GroupCount(), p.K/p.GroupCount()
	c := pass{p: p, channels: cg, outs: kg, in: x, out: y}
	if d == geometry.ToInput {
		c = pass{p: p, grad: true, channels: kg, outs: cg, in: y, out: x}
	}
	c.byRows = c.channels*p.R*p.S <= gemm.BlockK && direct.Takes(p, d)
	return c
}

// direction is that of the pass.
func (c *pass) direction() geometry.Direction {
	if c.grad {
		return geometry.ToInput
	}
	return geometry.ToOutput
}

// phases calls f for the parts of the outputs that see the same taps, but for the edge of the image.
func (c *pass) phases(f func(h, w geometry.Phase)) {
	p := c.p
	if c.grad {
		p.Phases(f)
		return
	}
	f(geometry.Phase{Pixels: p.OutH(), EveryTap: 1, N: p.R, Axis: geometry.Axis{In: p.H, Out: p.OutH(), Stride: p.StrideH, Taps: p.R, First: -p.PadH, Step: p.DilationH()}},
		geometry.Phase{Pixels: p.OutW(), EveryTap: 1, N: p.S, Axis: geometry.Axis{In: p.W, Out: p.OutW(), Stride: p.StrideW, Taps: p.S, First: -p.PadW, Step: p.DilationW()}})
}

// apart is how many outputs lie from one of a phase to the next.
func (c *pass) apart() (h, w int) {
	if c.grad {
		return c.p.StrideH, c.p.StrideW
	}
	return 1, 1
}

// seen is the rows of the input that the rows [first, end) of the output may look at.
func (c *pass) seen(first, end int) (from, to int) {
	p, reach := c.p, (c.p.R-1)*c.p.DilationH()
	if c.grad {
		from, to = kernel.CeilDiv(first+p.PadH-reach, p.StrideH), (end-1+p.PadH)/p.StrideH+1
	} else {
		from, to = first*p.StrideH-p.PadH, (end-1)*p.StrideH-p.PadH+reach+1
	}
	from = min(max(from, 0), c.in.h)
	return from, max(from, min(to, c.in.h))
}

// mostSeen is how many so many rows may look at.
func (c *pass) mostSeen(rows int) int {
	reach := (c.p.R - 1) * c.p.DilationH()
	if c.grad {
		return min(c.in.h, (rows-1+reach)/c.p.StrideH+1)
	}
	return min(c.in.h, (rows-1)*c.p.StrideH+reach+1)
}

// rowsOf is which rows of a phase lie in the rows [first, end) of the output.
func rowsOf(h *geometry.Phase, apart, first, end int) (lo, hi int) {
	return max(0, kernel.CeilDiv(first-h.Pixel, apart)), min(h.Pixels, kernel.CeilDiv(max(0, end-h.Pixel), apart))
}

// cut is how much a block holds at a time: rows of the outputs, some of the channels where outputs are summed, and some of the
// outputs where the gradient of the input is. Sums stay as long as package im2col's.
type cut struct{ rows, channels, outs int }

func (c *pass) cut(lanes int) (b cut) {
	if c.grad {
		b = cut{c.out.h, c.channels, c.height()}
	} else {
		b = cut{c.out.h, min(c.channels, max(1, gemm.BlockK/(c.p.R*c.p.S))), c.outs}
	}
	for b.rows > 1 && c.blockElems(b, lanes) > mostElems {
		b.rows = (b.rows + 1) / 2
	}
	for {
		more := cut{b.rows, min(c.channels, 2*b.channels), min(c.outs, 2*b.outs)}
		if more == b || c.blockElems(more, lanes) > mostElems {
			return b
		}
		b = more
	}
}

// blockElems is the pixels of both sides that a block holds.
func (c *pass) blockElems(b cut, lanes int) int {
	return (b.channels*c.mostSeen(b.rows)*c.in.w + b.outs*b.rows*c.out.w) * lanes
}

// height is the rows of its tiles.
func (c *pass) height() int { return gemm.EvenRows(c.outs, maxRows) }

// packedElems is the room for the weights of a group, in panels, with what packing writes beyond them.
func (c *pass) packedElems() int {
	return c.outs*c.channels*c.p.R*c.p.S + kernel.Block*(maxRows+1)
}

// Scratch is the number of scratch elements that Forward, or GradInput, needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	if d == geometry.ToWeight {
		return weightScratch(p)
	}
	c, n := newPass(p, d), 0
	for lanes := narrow; lanes <= kernel.Lanes(); lanes += narrow {
		n = max(n, c.blockElems(c.cut(lanes), lanes)+lanes*lanes+c.storeElems(lanes))
	}
	n = max(c.packedElems()+n, c.restScratch())
	if c.fitsOutputs() {
		n = max(n, c.outputScratch())
	}
	return n
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	compute(p, geometry.ToOutput, x, w, bias, y, scratch)
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	compute(p, geometry.ToInput, dy, w, nil, dx, scratch)
}

// compute is both: x is what sums see, and y the sums.
func compute(p *geometry.Shape, d geometry.Direction, x, w, bias, y, scratch []float32) {
	q := *p
	c := newPass(&q, d)
	if c.takesOutputs() {
		c.runOutputs(x, w, bias, y, scratch)
		return
	}
	rest := c.split()
	c.runLanes(x, w, bias, y, scratch)
	if rest > 0 {
		x, y = x[q.N*c.in.between:], y[q.N*c.out.between:]
		q.N = rest
		c.runRest(x, w, bias, y, scratch)
	}
}

// runLanes computes all images in lanes.
func (c *pass) runLanes(x, w, bias, y, scratch []float32) {
	for g := 0; c.p.N > 0 && g < c.p.GroupCount(); g++ {
		var b []float32
		if bias != nil {
			b = bias[g*c.outs:][:c.outs]
		}
		packed, room := scratch[:c.packedElems()], scratch[c.packedElems():]
		c.pack(w[g*c.outs*c.channels*c.p.R*c.p.S:], packed)
		c.runGroup(x[g*c.channels*c.in.pixels():], packed, b, y[g*c.outs*c.out.pixels():], room)
	}
}

// pack writes the weights of a group as panels, which have for each channel and tap the values of a tile's rows.
func (c *pass) pack(w, packed []float32) {
	if c.grad {
		c.packTurned(w, packed)
	} else {
		c.packFilters(w, packed)
	}
}

// packFilters is pack for the output.
func (c *pass) packFilters(w, packed []float32) {
	n, height := c.channels*c.p.R*c.p.S, c.height()
	for i := 0; i < c.outs; i += height {
		rows := min(height, c.outs-i)
		gemm.TransposeStrided(kernel.Lanes(), rows, n, w[i*n:], n, packed[i*n:], rows)
	}
}

// packTurned is pack for the gradient of the input, whose rows are x's channels.
func (c *pass) packTurned(w, packed []float32) {
	taps, height, lanes := c.p.R*c.p.S, c.height(), kernel.Lanes()
	for i := 0; i < c.outs; i += height {
		rows, panel := min(height, c.outs-i), packed[i*c.channels*taps:]
		if taps == 1 {
			for part := (rows - 1) / lanes * lanes; part >= 0; part -= lanes { // what is written too much belongs to parts before
				gemm.PackAlong(c.channels, &w[i+part], 4*c.outs, kernel.FirstLanes(min(rows-part, lanes)), &panel[part], 4*rows)
			}
			continue
		}
		for k := range c.channels {
			gemm.TransposeStrided(lanes, rows, taps, w[(k*c.outs+i)*taps:], taps, panel[k*taps*rows:], rows)
		}
	}
}

// runGroup computes the planes of a group of all images.
func (c *pass) runGroup(x, packed, bias, y, scratch []float32) {
	if c.seesOnePixel() {
		c.runPixels(x, packed, bias, y)
		return
	}
	c.run(x, packed, bias, y, scratch)
}

// run is runGroup for a vector of images at a time. Where they do not fill vectors, some are computed twice.
func (c *pass) run(x, packed, bias, y, scratch []float32) {
	n := c.p.N
	for first := 0; first < n; {
		lanes := kernel.Lanes()
		if n < lanes || n-first <= narrow {
			lanes = narrow
		}
		at := min(first, n-lanes)
		c.images(lanes, x[at*c.in.between:], packed, bias, y[at*c.out.between:], scratch)
		first = at + lanes
	}
}

// images computes as many images as there are lanes.
func (c *pass) images(lanes int, x, packed, bias, y, scratch []float32) {
	size := c.cut(lanes)
	b := block{pass: c, lanes: lanes}
	n := size.channels*c.mostSeen(size.rows)*c.in.w*lanes + lanes*lanes // what transposing writes beyond the end
	b.from, b.to = scratch[:n], scratch[n:]
	for b.first = 0; b.first < c.out.h; b.first = b.end {
		b.end = min(b.first+size.rows, c.out.h)
		b.low, b.high = c.seen(b.first, b.end)
		for b.firstOut = 0; b.firstOut < c.outs; b.firstOut = b.endOut {
			b.endOut = min(b.firstOut+size.outs, c.outs)
			b.start(bias)
			for b.channel = 0; b.channel < c.channels; b.channel = b.endChannel {
				b.endChannel = min(b.channel+size.channels, c.channels)
				if b.firstOut == 0 { // where outputs are cut, all channels stay
					b.load(x)
				}
				c.phases(func(h, w geometry.Phase) { b.add(&h, &w, packed, bias) })
			}
			b.store(y)
		}
	}
}
