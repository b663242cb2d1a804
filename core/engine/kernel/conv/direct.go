package conv

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The float32 convolution with stride 1: the micro-kernels read the taps straight
// from an image that was copied into a zero frame, through a table of offsets.
// No column matrix exists. The gradient for the input is the same convolution
// with the filters flipped, over dy in a frame of its own.

// direct reports whether this way works at the active level.
func (p *Shape) direct() bool {
	return kernel.Current() != kernel.Generic && p.StrideH == 1 && p.StrideW == 1 &&
		max(p.inputFrame().elems(), p.gradFrame().elems()) < math.MaxInt32/4 &&
		p.PadH <= p.dilH()*(p.R-1) && p.PadW <= p.dilW()*(p.S-1)
}

// frame is a group of channels with zeros around each plane, and room for a
// vector to read past the end.
type frame struct {
	channels, h, w int // of what is inside
	first          int // place of the first element inside
	width, plane   int // with the border
}

func newFrame(channels, h, w, padH, padW int) frame {
	width := w + 2*padW
	return frame{channels: channels, h: h, w: w, first: padH*width + padW, width: width, plane: (h + 2*padH) * width}
}

func (f frame) elems() int { return f.channels*f.plane + kernel.Block }

// fill copies an image's planes into a frame whose border is zero already.
func (f frame) fill(src, dst []float32) {
	for c := range f.channels {
		for i := range f.h {
			copy(dst[f.first+c*f.plane+i*f.width:][:f.w], src[(c*f.h+i)*f.w:])
		}
	}
}

// inputFrame holds x of one group, gradFrame dy.
func (p *Shape) inputFrame() frame { return newFrame(p.C/p.groups(), p.H, p.W, p.PadH, p.PadW) }
func (p *Shape) gradFrame() frame {
	return newFrame(p.K/p.groups(), p.OutH(), p.OutW(), p.dilH()*(p.R-1)-p.PadH, p.dilW()*(p.S-1)-p.PadW)
}

// directScratch has room for the frame, the spread planes of out channels, the
// table of taps and the weights.
func directScratch(p *Shape, f frame, out, oh, ow int) int {
	return f.elems() + f.spread(out, oh, ow) + f.channels*p.R*p.S*(1+out)
}

// spread is the room for out planes of oh×ow whose rows lie as far apart as the
// frame's, or 0 if that does not pay. It does for narrow images: a vector then
// crosses the ends of rows, and what it computes in between is dropped.
func (f frame) spread(out, oh, ow int) int {
	lanes, width := kernel.Lanes(), (oh-1)*f.width+ow
	if (width+lanes-1)/lanes >= (ow+lanes-1)/lanes*oh {
		return 0
	}
	return out * width
}

// directionScratch is what a direction of direct convolution needs.
func directionScratch(p *Shape, d Direction) int {
	switch d {
	case ToOutput:
		return directScratch(p, p.inputFrame(), p.K/p.groups(), p.OutH(), p.OutW())
	case ToInput:
		return directScratch(p, p.gradFrame(), p.C/p.groups(), p.H, p.W)
	}
	return directWeightScratch(p)
}

// directCall is one convolution of every image of a group: out planes of oh×ow
// from a frame.
type directCall struct {
	gemm.TileShape
	frame
	out, oh, ow int       // as the tiles see them: one long row if spread
	spread      []float32 // planes with gaps between their rows, or nil
	taps        []int32   // byte offset of each product's x from the pixel's own place
	weights     []float32 // packed panels, see packTaps
	bias        []float32
}

func directForward(p *Shape, x, w, bias, y, scratch []float32) {
	g, kg, oh, ow := p.groups(), p.K/p.groups(), p.OutH(), p.OutW()
	c := directCall{TileShape: gemm.TileShapes[kernel.Current()], frame: p.inputFrame(), out: kg, oh: oh, ow: ow}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, r*p.dilH(), s*p.dilW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.patch():], p.patch(), p.R*p.S, rest)
		if bias != nil {
			c.bias = bias[i*kg:][:kg]
		}
		for n := range p.N {
			c.fill(x[(n*p.C+i*c.channels)*p.H*p.W:], image)
			c.run(image, y[(n*p.K+i*kg)*oh*ow:][:kg*oh*ow], ow)
		}
	}
}

func directGradInput(p *Shape, dy, w, dx, scratch []float32) {
	g, cg, kg, oh, ow := p.groups(), p.C/p.groups(), p.K/p.groups(), p.OutH(), p.OutW()
	c := directCall{TileShape: gemm.TileShapes[kernel.Current()], frame: p.gradFrame(), out: cg, oh: p.H, ow: p.W}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, (p.R-1-r)*p.dilH(), (p.S-1-s)*p.dilW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.patch():], p.R*p.S, p.patch(), rest)
		for n := range p.N {
			c.fill(dy[(n*p.K+i*kg)*oh*ow:], image)
			c.run(image, dx[(n*p.C+i*cg)*p.H*p.W:][:cg*p.H*p.W], p.W)
		}
	}
}

// reserve cuts the frame, the spread planes and the table of taps from scratch;
// the rest is for the weights.
func (c *directCall) reserve(p *Shape, scratch []float32) (image, rest []float32) {
	image, rest = scratch[:c.elems()], scratch[c.elems():]
	clear(image)
	if n := c.frame.spread(c.out, c.oh, c.ow); n > 0 {
		c.spread, rest = rest[:n], rest[n:]
		c.oh, c.ow = 1, n/c.out
	}
	taps := c.channels * p.R * p.S
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&rest[0])), taps)
	return image, rest[taps:]
}

// setTap says for every channel that the filter's element rs looks h rows down and w columns right.
func (c *directCall) setTap(p *Shape, rs, h, w int) {
	for ch := range c.channels {
		c.taps[ch*p.R*p.S+rs] = int32(4 * (ch*c.plane + h*c.width + w))
	}
}

// packTaps packs the weights as Gemm packs A, block of taps by block of taps:
// element (out, in, rs) is at out·outStride + in·inStride + rs.
func packTaps(c *directCall, rs int, w []float32, outStride, inStride int, dst []float32) {
	height, taps := gemm.EvenRows(c.out, c.Rows), len(c.taps)
	c.weights = dst[:c.out*taps]
	for l := 0; l < taps; l += gemm.BlockK {
		k := min(gemm.BlockK, taps-l)
		for i := range c.out {
			first := i / height * height
			rows := min(height, c.out-first)
			panel := c.weights[l*c.out+first*k:][i-first:]
			at, tap := i*outStride+l/rs*inStride+l%rs, l%rs
			for t := 0; t < k*rows; t += rows {
				panel[t] = w[at]
				at++
				if tap++; tap == rs {
					at, tap = at+inStride-rs, 0
				}
			}
		}
	}
}

// run convolves one framed image into y, whose rows have width elements.
func (c *directCall) run(image, y []float32, width int) {
	to := y
	if c.spread != nil {
		to = c.spread
	}
	for l := 0; l < len(c.taps); l += gemm.BlockK {
		k := min(gemm.BlockK, len(c.taps)-l)
		t := gemm.Tile{K: k, Off: &c.taps[l], Ldc: 4 * c.oh * c.ow}
		if l > 0 {
			t.Add = 1
		}
		c.runTaps(&t, c.weights[l*c.out:][:k*c.out], image, to)
	}
	if c.spread != nil {
		c.gather(y, width)
	}
}

// gather copies the rows of the spread planes together.
func (c *directCall) gather(y []float32, width int) {
	for i := range c.out {
		for plane := c.spread[i*c.ow:][:c.ow]; len(plane) >= width; {
			y = y[copy(y, plane[:width]):]
			plane = plane[min(c.width, len(plane)):]
		}
	}
}

// runTaps walks over the output in pairs of vectors; a vector never crosses a row's end.
func (c *directCall) runTaps(t *gemm.Tile, weights, image, y []float32) {
	perRow := (c.ow + c.Lanes - 1) / c.Lanes
	for v := 0; v < perRow*c.oh; v += 2 {
		from, to, n := c.vector(v, perRow)
		t.B0, t.C0, t.N0 = &image[from], &y[to], kernel.FirstLanes(n)
		t.B1, t.C1, t.N1 = t.B0, t.C0, kernel.FirstLanes(0)
		at1 := to
		if v+1 < perRow*c.oh {
			from, at1, n = c.vector(v+1, perRow)
			t.B1, t.C1, t.N1 = &image[from], &y[at1], kernel.FirstLanes(n)
		}
		c.column(t, weights, y, to, at1)
	}
}

// vector is the place of a vector of output pixels: in the frame, in y, and how many.
func (c *directCall) vector(v, perRow int) (from, to, n int) {
	row, col := v/perRow, v%perRow*c.Lanes
	return row*c.width + col, row*c.ow + col, min(c.Lanes, c.ow-col)
}

// column computes the pair of vectors for every output channel.
func (c *directCall) column(t *gemm.Tile, weights, y []float32, to0, to1 int) {
	height, plane := gemm.EvenRows(c.out, c.Rows), c.oh*c.ow
	for i := 0; i < c.out; i += height {
		t.A = &weights[i*t.K]
		t.C0, t.C1 = &y[i*plane+to0], &y[i*plane+to1]
		t.Bias = nil
		if c.bias != nil && t.Add == 0 {
			t.Bias = &c.bias[i]
		}
		gemm.RunTile(min(height, c.out-i), t)
	}
}
