package direct

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution of bfloat16 images with stride 1, for layers that Winograd
// does not take: as in direct.go, the micro-kernels read the taps
// from an image in a zero frame. Here a frame's elements are pairs of bfloat16
// that are multiplied at once: of neighbouring channels, or, where their number
// is odd, of a pixel and the one below that the next row of taps sees. A filter
// with an odd number of rows then multiplies one row by zero; what is not finite
// there spreads one row further than its filter.

// TakesBF16 reports whether a convolution of from to to channels can be computed by this algorithm.
func TakesBF16(p *geometry.Shape, from, to int) bool {
	const most = 1 << 16 // pairs of weights, to stay in L2: images whose pixels are seen once are worth reading more for
	vertical := from%2 > 0
	if pointwise(p) {
		return !vertical && p.OutH()*p.OutW() >= fewPixels
	}
	return kernel.HasBF16() && p.GroupCount() == 1 && p.Stride1() && p.FitsFrame() && !(vertical && p.R == 1) && pairTaps(p, from)*to <= most
}

// pairTaps is the number of pairs of products of an output.
func pairTaps(p *geometry.Shape, from int) int {
	if from%2 > 0 {
		return from * kernel.CeilDiv(p.R, 2) * p.S
	}
	return from / 2 * p.R * p.S
}

// callBF16 is one convolution of every image: out planes of oh×ow from a frame of pairs.
type callBF16 struct {
	gemm.TileShape
	geometry.Frame
	picks
	p               geometry.Shape
	from, out       int // channels
	oh, ow          int // as the tiles see them: one long row if spread
	together, each  int // images that share a frame, side by side in its only row, and the outputs of one in a plane
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

// BF16Scratch is the number of scratch elements that ForwardBF16 and GradInputBF16 need.
func BF16Scratch(p *geometry.Shape) int {
	n := 0
	if TakesBF16(p, p.C, p.K) {
		f := newCallBF16(p, false)
		n = f.scratch()
	}
	if TakesBF16(p, p.K, p.C) {
		g := newCallBF16(p, true)
		n = max(n, g.scratch())
	}
	return n
}

func newCallBF16(full *geometry.Shape, gradInput bool) callBF16 {
	flat := picked(full)
	p := &flat
	c := callBF16{TileShape: gemm.TileShapes[kernel.AVX512], picks: newPicks(full), p: flat, from: p.C, out: p.K, oh: p.OutH(), ow: p.OutW(), outStep: p.PatchSize(), inStep: p.R * p.S}
	c.Frame = p.InputFrame()
	if gradInput {
		c.from, c.out, c.oh, c.ow = p.K, p.C, p.H, p.W
		c.outStep, c.inStep, c.flipped = c.inStep, c.outStep, true
		c.Frame = p.GradFrame()
	}
	if c.vertical = c.from%2 > 0; !c.vertical {
		c.Channels /= 2
	}
	c.together, c.each = together(p), c.oh*c.ow
	if c.together > 1 {
		c.ow *= c.together
		c.Plane = c.ow + kernel.Block // what the last image's copy writes behind it
	}
	return c
}

// together is how many images share a frame: several where filters of 1×1 see few pixels, which
// would fill their tiles, each of two vectors, to less than three fifths.
func together(p *geometry.Shape) int {
	const tile, enough = 2 * kernel.Block, 16 * kernel.Block
	if p.H*p.R*p.S > 1 || 5*p.W >= 3*kernel.CeilDiv(p.W, tile)*tile {
		return 1
	}
	return min(p.N, kernel.CeilDiv(enough, p.W))
}

func (c *callBF16) scratch() int {
	taps := pairTaps(&c.p, c.from)
	return c.roomElems() + c.Elems() + kernel.CeilDiv(c.spreadElems(), 2) + taps + gemm.PairPanelElems(c.out, 2*taps)
}

// spreadElems is the room for planes that are copied to where they belong, or 0.
func (c *callBF16) spreadElems() int {
	if c.together > 1 {
		return c.out * c.ow
	}
	return spread(c.Lanes, &c.Frame, c.out, c.oh, c.ow)
}

// reserve cuts the call's buffers from scratch. The frame starts as zeros.
func (c *callBF16) reserve(scratch []float32) {
	scratch = c.picks.reserve(scratch)
	c.image, scratch = scratch[:c.Elems()], scratch[c.Elems():]
	clear(c.image)
	if n := c.spreadElems(); n > 0 {
		c.spread = unsafe.Slice((*uint16)(unsafe.Pointer(&scratch[0])), n)
		scratch = scratch[kernel.CeilDiv(n, 2):]
		c.oh, c.ow = 1, n/c.out
	}
	taps := pairTaps(&c.p, c.from)
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), taps)
	c.weights = scratch[taps:][:gemm.PairPanelElems(c.out, 2*taps)]
}

// ForwardBF16 computes y = conv(x, w) + bias with float32 sums, rounded once; bias may be nil.
func ForwardBF16(p *geometry.Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	c := newCallBF16(p, false)
	c.bias = bias
	c.run(x, w, y, scratch)
}

// GradInputBF16 overwrites dx with the gradient of the input, rounded once.
func GradInputBF16(p *geometry.Shape, dy, w, dx []uint16, scratch []float32) {
	c := newCallBF16(p, true)
	c.run(dy, w, dx, scratch)
}

func (c *callBF16) run(x, w, y []uint16, scratch []float32) {
	width := c.ow
	c.reserve(scratch)
	c.setTaps()
	c.setWeights(w)
	for n := 0; n < c.p.N; n += c.together {
		count := min(c.together, c.p.N-n)
		for i := range count {
			c.fillPairs(c.imageOf(n+i, x), i)
		}
		if c.spread == nil {
			c.convolve(c.target(n, y))
		} else {
			c.convolve(c.spread)
		}
		for i := range count {
			c.finish(n, i, width, y)
		}
	}
}

// target is where image n is written: into y, or to the room that is put there.
func (c *callBF16) target(n int, y []uint16) []uint16 {
	if c.some() && c.flipped {
		return c.room[:c.out*c.each]
	}
	return y[n*c.out*c.each:][:c.out*c.each]
}

// finish copies image i of those from n on to where it belongs, if it is not there yet.
func (c *callBF16) finish(n, i, width int, y []uint16) {
	to := c.target(n+i, y)
	switch {
	case c.together > 1:
		for k := range c.out {
			copy(to[k*c.each:][:c.each], c.spread[k*c.ow+i*c.each:])
		}
	case c.spread != nil:
		c.gather(to, width)
	}
	if c.some() && c.flipped {
		c.put(y[(n+i)*c.out*c.shape.H*c.shape.W:])
	}
}

// imageOf is image n of x, or its pixels that filters see.
func (c *callBF16) imageOf(n int, x []uint16) []uint16 {
	if !c.some() || c.flipped {
		return x[n*c.from*c.H*c.W:]
	}
	c.pick(x[n*c.from*c.shape.H*c.shape.W:], c.room, c.H*c.W)
	return c.room
}

// tapRows is how many rows of pairs a filter has, and how many of its rows one takes.
func (c *callBF16) tapRows() (rows, each int) {
	if c.vertical {
		return kernel.CeilDiv(c.p.R, 2), 2
	}
	return c.p.R, 1
}

// setTaps lists the pairs of every plane of the frame in the order (plane, row, column).
func (c *callBF16) setTaps() {
	rows, each := c.tapRows()
	i := 0
	for ch := range c.Channels {
		for r := range rows {
			for s := range c.p.S {
				c.taps[i] = int32(4 * (ch*c.Plane + r*each*c.p.DilationH()*c.Width + s*c.p.DilationW()))
				i++
			}
		}
	}
}

// setWeights packs the weights' pairs in panels of evenRows output channels.
func (c *callBF16) setWeights(w []uint16) {
	rows, each := c.tapRows()
	height := gemm.EvenRows(c.out, c.Rows)
	if c.p.R*c.p.S == 1 {
		gemm.PackPairPanels(w, c.outStep, c.inStep, c.out, c.from, height, c.weights)
		return
	}
	for out := range c.out {
		first := out / height * height
		high := min(height, c.out-first)
		panel := c.weights[first*len(c.taps)+out-first:]
		i := 0
		for ch := range c.Channels {
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
func (c *callBF16) weight(w []uint16, out, ch, r, s int) uint16 {
	if !c.vertical {
		ch *= 2
	}
	return c.tap(w, out, ch, r, s)
}

// partner is the second: the tap below, or that of the next channel.
func (c *callBF16) partner(w []uint16, out, ch, r, s int) uint16 {
	switch {
	case !c.vertical:
		return c.tap(w, out, 2*ch+1, r, s)
	case r+1 < c.p.R:
		return c.tap(w, out, ch, r+1, s)
	}
	return 0
}

func (c *callBF16) tap(w []uint16, out, in, r, s int) uint16 {
	if c.flipped {
		r, s = c.p.R-1-r, c.p.S-1-s
	}
	return w[out*c.outStep+in*c.inStep+r*c.p.S+s]
}

// fillPairs copies an image's planes into the frame, behind those of i others.
func (c *callBF16) fillPairs(x []uint16, i int) {
	size := c.H * c.W
	if c.H == 1 && !c.vertical { // a column of all planes at a time, or of some
		some := c.Channels
		if aliases(c.from, 2*size) {
			some = 8
		}
		for ch := 0; ch < c.Channels; ch += some {
			planes, n := x[2*ch*size:], min(some, c.Channels-ch)
			for col := (size - 1) / kernel.Block * kernel.Block; col >= 0; col -= kernel.Block {
				gemm.PackPairs(n, &planes[col], &planes[size+col], 4*size, min(kernel.Block, size-col), &c.image[ch*c.Plane+c.First()+i*size+col], 4*c.Plane)
			}
		}
		return
	}
	for ch := range c.Channels {
		to := ch*c.Plane + c.First()
		if !c.vertical {
			c.pairRows(c.H, x[2*ch*size:][:size], x[(2*ch+1)*size:][:size], to)
			continue
		}
		plane, below := x[ch*size:][:size], c.p.DilationH()
		for i := -min(below, c.First()/c.Width); i < c.H; i++ {
			switch {
			case i < 0 && i+below < c.H:
				c.pairRows(1, nil, plane[(i+below)*c.W:], to+i*c.Width)
			case i >= 0 && i+below >= c.H:
				c.pairRows(1, plane[i*c.W:], nil, to+i*c.Width)
			case i == 0:
				c.pairRows(c.H-below, plane, plane[below*c.W:], to)
			}
		}
	}
}

// aliases reports whether the L1 cache keeps fewer lines than there are planes of so many bytes, one of each: between the
// two halves of a line it would be read again.
func aliases(planes, size int) bool {
	const page, line, ways = 4096, 64, 8
	apart := size & -size // the largest power of two in it
	return planes > ways*min(page/line, max(1, page/apart))
}

// pairRows interleaves rows of w pixels at element to of the frame. One of the
// sources may be nil, for a row of zeros. The last vector of a row clears what is behind it, which
// the columns and rows that follow overwrite.
func (c *callBF16) pairRows(rows int, even, odd []uint16, to int) {
	for col := (c.W - 1) / kernel.Block * kernel.Block; col >= 0; col -= kernel.Block {
		a, b := &c.noPixels[0], &c.noPixels[0]
		if even != nil {
			a = &even[col]
		}
		if odd != nil {
			b = &odd[col]
		}
		gemm.PackPairs(rows, a, b, 2*c.W, min(kernel.Block, c.W-col), &c.image[to+col], 4*c.Width)
	}
}

// convolve computes one framed image, in pairs of vectors that never cross a row's end.
func (c *callBF16) convolve(y []uint16) {
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
func (c *callBF16) vector(v, perRow int) (from, to, n int) {
	row, col := v/perRow, v%perRow*c.Lanes
	return row*c.Width + col, row*c.ow + col, min(c.Lanes, c.ow-col)
}

// gather copies the rows of the spread planes together.
func (c *callBF16) gather(y []uint16, width int) {
	for i := range c.out {
		for plane := c.spread[i*c.ow:][:c.ow]; len(plane) >= width; {
			y = y[copy(y, plane[:width]):]
			plane = plane[min(c.Width, len(plane)):]
		}
	}
}
