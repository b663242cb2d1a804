package conv

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution of bfloat16 images with stride 1, for layers that Winograd
// does not take: as in conv_direct.go, the micro-kernels read the taps
// from an image in a zero frame. Here a frame's elements are pairs of bfloat16
// that are multiplied at once: of neighbouring channels, or, where their number
// is odd, of a pixel and the one below that the next row of taps sees. A filter
// with an odd number of rows then multiplies one row by zero; what is not finite
// there spreads one row further than its filter.

// direct16 reports whether a convolution of from to to channels can go this way.
func (p *Shape) direct16(from, to int) bool {
	const most = 1 << 16 // pairs of weights, to stay in L2
	vertical := from%2 > 0
	return kernel.HasBF16() && p.groups() == 1 && p.direct() && !p.winogradBF16() && !(vertical && p.R == 1) && p.pairTaps(from)*to <= most
}

// pairTaps is the number of pairs of products of an output.
func (p *Shape) pairTaps(from int) int {
	if from%2 > 0 {
		return from * kernel.CeilDiv(p.R, 2) * p.S
	}
	return from / 2 * p.R * p.S
}

// pairCall is one convolution of every image: out planes of oh×ow from a frame of pairs.
type pairCall struct {
	gemm.TileShape
	frame
	p               *Shape
	from, out       int // channels
	oh, ow          int // as the tiles see them: one long row if spread
	vertical        bool
	image           []float32 // pairs of bfloat16
	spread          []uint16  // planes with gaps between their rows, or nil
	taps            []int32   // byte offset of each pair from the pixel's own place
	weights         []float32 // packed panels of pairs
	bias            []float32
	outStep, inStep int // between the filters of output and input channels
	flipped         bool
	noPixels        [kernel.Block]uint16
}

func direct16Scratch(p *Shape) int {
	n := 0
	if p.direct16(p.C, p.K) {
		f := newPairCall(p, false)
		n = f.scratch()
	}
	if p.direct16(p.K, p.C) {
		g := newPairCall(p, true)
		n = max(n, g.scratch())
	}
	return n
}

func newPairCall(p *Shape, gradInput bool) pairCall {
	c := pairCall{TileShape: gemm.TileShapes[kernel.AVX512], p: p, from: p.C, out: p.K, oh: p.OutH(), ow: p.OutW(), outStep: p.patch(), inStep: p.R * p.S}
	c.frame = p.inputFrame()
	if gradInput {
		c.from, c.out, c.oh, c.ow = p.K, p.C, p.H, p.W
		c.outStep, c.inStep, c.flipped = c.inStep, c.outStep, true
		c.frame = p.gradFrame()
	}
	if c.vertical = c.from%2 > 0; !c.vertical {
		c.channels /= 2
	}
	return c
}

func (c *pairCall) scratch() int {
	taps := c.p.pairTaps(c.from)
	return c.elems() + kernel.CeilDiv(c.frame.spread(c.out, c.oh, c.ow), 2) + taps + taps*c.out
}

// reserve cuts the call's buffers from scratch. The frame starts as zeros.
func (c *pairCall) reserve(scratch []float32) {
	c.image, scratch = scratch[:c.elems()], scratch[c.elems():]
	clear(c.image)
	if n := c.frame.spread(c.out, c.oh, c.ow); n > 0 {
		c.spread = unsafe.Slice((*uint16)(unsafe.Pointer(&scratch[0])), n)
		scratch = scratch[kernel.CeilDiv(n, 2):]
		c.oh, c.ow = 1, n/c.out
	}
	taps := c.p.pairTaps(c.from)
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), taps)
	c.weights = scratch[taps:][:taps*c.out]
}

func direct16Forward(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	c := newPairCall(p, false)
	c.bias = bias
	c.run(x, w, y, scratch)
}

func direct16GradInput(p *Shape, dy, w, dx []uint16, scratch []float32) {
	c := newPairCall(p, true)
	c.run(dy, w, dx, scratch)
}

func (c *pairCall) run(x, w, y []uint16, scratch []float32) {
	width, plane := c.ow, c.oh*c.ow
	c.reserve(scratch)
	c.setTaps()
	c.setWeights(w)
	for n := range c.p.N {
		c.fillPairs(x[n*c.from*c.h*c.w:])
		to := y[n*c.out*plane:][:c.out*plane]
		if c.spread == nil {
			c.convolve(to)
			continue
		}
		c.convolve(c.spread)
		c.gather(to, width)
	}
}

// tapRows is how many rows of pairs a filter has, and how many of its rows one takes.
func (c *pairCall) tapRows() (rows, each int) {
	if c.vertical {
		return kernel.CeilDiv(c.p.R, 2), 2
	}
	return c.p.R, 1
}

// setTaps lists the pairs of every plane of the frame in the order (plane, row, column).
func (c *pairCall) setTaps() {
	rows, each := c.tapRows()
	i := 0
	for ch := range c.channels {
		for r := range rows {
			for s := range c.p.S {
				c.taps[i] = int32(4 * (ch*c.plane + r*each*c.p.dilH()*c.width + s*c.p.dilW()))
				i++
			}
		}
	}
}

// setWeights packs the weights' pairs in panels of evenRows output channels.
func (c *pairCall) setWeights(w []uint16) {
	rows, each := c.tapRows()
	height := gemm.EvenRows(c.out, c.Rows)
	for out := range c.out {
		first := out / height * height
		high := min(height, c.out-first)
		panel := c.weights[first*len(c.taps)+out-first:]
		i := 0
		for ch := range c.channels {
			for r := range rows {
				for s := range c.p.S {
					pair := uint32(c.weight(w, out, ch, r*each, s)) | uint32(c.partner(w, out, ch, r*each, s))<<16
					panel[i*high] = math.Float32frombits(pair)
					i++
				}
			}
		}
	}
}

// weight is the first of a pair: tap (r, s) of the plane ch of the frame.
func (c *pairCall) weight(w []uint16, out, ch, r, s int) uint16 {
	if !c.vertical {
		ch *= 2
	}
	return c.tap(w, out, ch, r, s)
}

// partner is the second: the tap below, or that of the next channel.
func (c *pairCall) partner(w []uint16, out, ch, r, s int) uint16 {
	switch {
	case !c.vertical:
		return c.tap(w, out, 2*ch+1, r, s)
	case r+1 < c.p.R:
		return c.tap(w, out, ch, r+1, s)
	}
	return 0
}

func (c *pairCall) tap(w []uint16, out, in, r, s int) uint16 {
	if c.flipped {
		r, s = c.p.R-1-r, c.p.S-1-s
	}
	return w[out*c.outStep+in*c.inStep+r*c.p.S+s]
}

// fillPairs copies an image's planes into the frame.
func (c *pairCall) fillPairs(x []uint16) {
	size := c.h * c.w
	for ch := range c.channels {
		to := ch*c.plane + c.first
		if !c.vertical {
			c.pairRows(c.h, x[2*ch*size:][:size], x[(2*ch+1)*size:][:size], to)
			continue
		}
		plane, below := x[ch*size:][:size], c.p.dilH()
		for i := -min(below, c.first/c.width); i < c.h; i++ {
			switch {
			case i < 0 && i+below < c.h:
				c.pairRows(1, nil, plane[(i+below)*c.w:], to+i*c.width)
			case i >= 0 && i+below >= c.h:
				c.pairRows(1, plane[i*c.w:], nil, to+i*c.width)
			case i == 0:
				c.pairRows(c.h-below, plane, plane[below*c.w:], to)
			}
		}
	}
}

// pairRows interleaves rows of w pixels at element to of the frame. One of the
// sources may be nil, for a row of zeros. The last vector of a row clears what is behind it, which
// the columns and rows that follow overwrite.
func (c *pairCall) pairRows(rows int, even, odd []uint16, to int) {
	for col := (c.w - 1) / kernel.Block * kernel.Block; col >= 0; col -= kernel.Block {
		a, b := &c.noPixels[0], &c.noPixels[0]
		if even != nil {
			a = &even[col]
		}
		if odd != nil {
			b = &odd[col]
		}
		gemm.PackPairs(rows, a, b, 2*c.w, kernel.FirstLanes(min(kernel.Block, c.w-col)), &c.image[to+col], 4*c.width)
	}
}

// convolve computes one framed image, in pairs of vectors that never cross a row's end.
func (c *pairCall) convolve(y []uint16) {
	at := func(i int) *float32 { return (*float32)(unsafe.Pointer(&y[i])) }
	height, plane, perRow := gemm.EvenRows(c.out, c.Rows), c.oh*c.ow, kernel.CeilDiv(c.ow, c.Lanes)
	t := gemm.Tile{K: len(c.taps), Off: &c.taps[0], Ldc: 2 * plane}
	for v := 0; v < perRow*c.oh; v += 2 {
		from, to, n := c.vector(v, perRow)
		t.B0, t.N0 = &c.image[from], kernel.FirstLanes(n)
		t.B1, t.N1 = t.B0, kernel.FirstLanes(0)
		next := to
		if v+1 < perRow*c.oh {
			from, next, n = c.vector(v+1, perRow)
			t.B1, t.N1 = &c.image[from], kernel.FirstLanes(n)
		}
		for i := 0; i < c.out; i += height {
			t.A, t.C0, t.C1 = &c.weights[i*t.K], at(i*plane+to), at(i*plane+next)
			if c.bias != nil {
				t.Bias = &c.bias[i]
			}
			gemm.RunRoundedTile(min(height, c.out-i), &t)
		}
	}
}

// vector is the place of a vector of output pixels: in the frame, in y, and how many.
func (c *pairCall) vector(v, perRow int) (from, to, n int) {
	row, col := v/perRow, v%perRow*c.Lanes
	return row*c.width + col, row*c.ow + col, min(c.Lanes, c.ow-col)
}

// gather copies the rows of the spread planes together.
func (c *pairCall) gather(y []uint16, width int) {
	for i := range c.out {
		for plane := c.spread[i*c.ow:][:c.ow]; len(plane) >= width; {
			y = y[copy(y, plane[:width]):]
			plane = plane[min(c.width, len(plane)):]
		}
	}
}
