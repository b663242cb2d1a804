package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The float32 convolution: the micro-kernels read the taps straight
// from an image that was copied into a zero frame, through a table of offsets.
// No column matrix exists. The gradient for the input is a convolution with stride 1
// with the filters flipped, over dy in a frame of its own, in which a stride leaves gaps of zeros.

// Takes reports whether a direction can be computed directly at the active level.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	return p.FitsFrame() && (d != geometry.ToWeight || takesWeight(p))
}

// outputScratch has room for the frame, the spread planes of out channels, the
// table of taps and the weights.
func outputScratch(p *geometry.Shape, f geometry.Frame, out, oh, ow int) int {
	return f.Elems() + spread(f, out, oh, ow) + f.Channels*p.R*p.S*(1+out)
}

// spread is the room for out planes of oh×ow whose rows lie as far apart as the
// frame's, or 0 if that does not pay. It does for narrow images: a vector then
// crosses the ends of rows, and what it computes in between is dropped.
func spread(f geometry.Frame, out, oh, ow int) int {
	lanes, width := kernel.Lanes(), (oh-1)*f.Width+ow
	if (width+lanes-1)/lanes >= (ow+lanes-1)/lanes*oh {
		return 0
	}
	return out * width
}

// Scratch is what a direction of direct convolution needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	switch d {
	case geometry.ToOutput:
		return outputScratch(p, p.InputFrame(), p.K/p.GroupCount(), p.OutH(), p.OutW())
	case geometry.ToInput:
		return outputScratch(p, p.GradFrame(), p.C/p.GroupCount(), p.H, p.W)
	}
	return weightScratch(p)
}

// call is one convolution of every image of a group: out planes of oh×ow
// from a frame.
type call struct {
	gemm.TileShape
	geometry.Frame
	out, oh, ow int       // as the tiles see them: one long row if spread
	spread      []float32 // planes with gaps between their rows, or nil
	taps        []int32   // byte offset of each product's x from the pixel's own place
	weights     []float32 // packed panels, see packTaps
	bias        []float32
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	g, kg, oh, ow := p.GroupCount(), p.K/p.GroupCount(), p.OutH(), p.OutW()
	c := call{TileShape: gemm.TileShapes[kernel.Current()], Frame: p.InputFrame(), out: kg, oh: oh, ow: ow}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, r*p.DilationH(), s*p.DilationW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.PatchSize():], p.PatchSize(), p.R*p.S, rest)
		if bias != nil {
			c.bias = bias[i*kg:][:kg]
		}
		for n := range p.N {
			c.Fill(x[(n*p.C+i*c.Channels)*p.H*p.W:], image)
			c.run(image, y[(n*p.K+i*kg)*oh*ow:][:kg*oh*ow], ow)
		}
	}
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	g, cg, kg, oh, ow := p.GroupCount(), p.C/p.GroupCount(), p.K/p.GroupCount(), p.OutH(), p.OutW()
	c := call{TileShape: gemm.TileShapes[kernel.Current()], Frame: p.GradFrame(), out: cg, oh: p.H, ow: p.W}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, (p.R-1-r)*p.DilationH(), (p.S-1-s)*p.DilationW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.PatchSize():], p.R*p.S, p.PatchSize(), rest)
		for n := range p.N {
			c.Fill(dy[(n*p.K+i*kg)*oh*ow:], image)
			c.run(image, dx[(n*p.C+i*cg)*p.H*p.W:][:cg*p.H*p.W], p.W)
		}
	}
}

// reserve cuts the frame, the spread planes and the table of taps from scratch;
// the rest is for the weights.
func (c *call) reserve(p *geometry.Shape, scratch []float32) (image, rest []float32) {
	image, rest = scratch[:c.Elems()], scratch[c.Elems():]
	clear(image)
	if n := spread(c.Frame, c.out, c.oh, c.ow); n > 0 {
		c.spread, rest = rest[:n], rest[n:]
		c.oh, c.ow = 1, n/c.out
	}
	taps := c.Channels * p.R * p.S
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&rest[0])), taps)
	return image, rest[taps:]
}

// setTap says for every channel that the filter's element rs looks h rows down and w columns right.
func (c *call) setTap(p *geometry.Shape, rs, h, w int) {
	for ch := range c.Channels {
		c.taps[ch*p.R*p.S+rs] = int32(4 * (ch*c.Plane + c.At(h, w)))
	}
}

// packTaps packs the weights as Gemm packs A, block of taps by block of taps:
// element (out, in, rs) is at out·outStride + in·inStride + rs.
func packTaps(c *call, rs int, w []float32, outStride, inStride int, dst []float32) {
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
func (c *call) run(image, y []float32, width int) {
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
func (c *call) gather(y []float32, width int) {
	for i := range c.out {
		for plane := c.spread[i*c.ow:][:c.ow]; len(plane) >= width; {
			y = y[copy(y, plane[:width]):]
			plane = plane[min(c.Width, len(plane)):]
		}
	}
}

// runTaps walks over the output in pairs of vectors; a vector never crosses a row's end.
func (c *call) runTaps(t *gemm.Tile, weights, image, y []float32) {
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
func (c *call) vector(v, perRow int) (from, to, n int) {
	row, col := v/perRow, v%perRow*c.Lanes
	return row*c.Width + col, row*c.ow + col, min(c.Lanes, c.ow-col)
}

// column computes the pair of vectors for every output channel.
func (c *call) column(t *gemm.Tile, weights, y []float32, to0, to1 int) {
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
