package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The float32 convolution: the micro-kernels read the taps straight
// from an image that was copied into a zero frame, through a table of offsets.
// No column matrix exists. The gradient for the input (grad.go) is a convolution with stride 1
// over dy in a frame of its own, for every phase of a pixel's position.

// Takes reports whether a direction can be computed directly at the active level.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	return p.FitsFrame() && (d != geometry.ToWeight || takesWeight(p)) && (d != geometry.ToInput || takesInput(p))
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
		f, kg := p.InputFrame(), p.K/p.GroupCount()
		return f.Elems() + spread(f, kg, p.OutH(), p.OutW()) + tapElems(p, f.Channels, kg)
	case geometry.ToInput:
		return newGradOut(p).scratch()
	}
	return weightScratch(p)
}

// tapElems is the room for the tables of all taps of channels, and their weights for out others.
func tapElems(p *geometry.Shape, channels, out int) int {
	return p.R*p.S + channels*p.R*p.S*(1+out)
}

// call is one convolution of every image of a group: out planes of oh×ow
// from a frame.
type call struct {
	gemm.TileShape
	geometry.Frame
	out, oh, ow int       // as the tiles see them: one long row if spread
	row, plane  int       // elements between the rows of y and between its planes, as the tiles see them
	spread      []float32 // planes with gaps between their rows, or nil
	index       []int32   // of each tap's weight among those of a channel
	taps        []int32   // byte offset of each product's x from the pixel's own place
	weights     []float32 // packed panels, see packTaps
	bias        []float32
}

// newCall computes out planes of oh×ow that lie side by side.
func newCall(f geometry.Frame, out, oh, ow int) call {
	return call{TileShape: gemm.TileShapes[kernel.Current()], Frame: f, out: out, oh: oh, ow: ow, row: ow, plane: oh * ow}
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	g, kg, oh, ow := p.GroupCount(), p.K/p.GroupCount(), p.OutH(), p.OutW()
	c := newCall(p.InputFrame(), kg, oh, ow)
	image, rest := scratch[:c.Elems()], scratch[c.Elems():]
	clear(image)
	if n := spread(c.Frame, kg, oh, ow); n > 0 {
		c.spread, rest = rest[:n], rest[n:]
		c.spreadRows()
	}
	rest = c.reserve(p.R*p.S, rest)
	for rs := range p.R * p.S {
		c.setTap(rs, rs, rs/p.S*p.DilationH(), rs%p.S*p.DilationW())
	}
	for i := range g {
		packTaps(&c, w[i*kg*p.PatchSize():], p.PatchSize(), p.R*p.S, rest)
		if bias != nil {
			c.bias = bias[i*kg:][:kg]
		}
		for n := range p.N {
			c.Fill(x[(n*p.C+i*c.Channels)*p.H*p.W:], image)
			to := y[(n*p.K+i*kg)*oh*ow:][:kg*oh*ow]
			if c.spread == nil {
				c.run(image, to)
				continue
			}
			c.run(image, c.spread)
			c.gather(to, oh, ow, ow, oh*ow)
		}
	}
}

// spreadRows makes the tiles see a plane as one row, with the gaps of the frame.
func (c *call) spreadRows() {
	width := (c.oh-1)*c.Width + c.ow
	c.oh, c.ow, c.row, c.plane = 1, width, width, width
}

// reserve cuts the tables of taps, of which every channel has rs, from scratch; the rest is for the weights.
func (c *call) reserve(rs int, scratch []float32) (rest []float32) {
	table := func(n int) []int32 {
		if n == 0 {
			return nil
		}
		t := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), n)
		scratch = scratch[n:]
		return t
	}
	c.index, c.taps = table(rs), table(c.Channels*rs)
	return scratch
}

// setTap says for every channel that tap i, whose weight has that index, looks h rows down and w columns right.
func (c *call) setTap(i, index, h, w int) {
	c.index[i] = int32(index)
	for ch := range c.Channels {
		c.taps[ch*len(c.index)+i] = int32(4 * (ch*c.Plane + c.At(h, w)))
	}
}

// packTaps packs the weights as Gemm packs A, block of taps by block of taps:
// element (out, in, index) is at out·outStride + in·inStride + index. It returns what is left of dst.
func packTaps(c *call, w []float32, outStride, inStride int, dst []float32) (rest []float32) {
	height, taps, rs := gemm.EvenRows(c.out, c.Rows), len(c.taps), len(c.index)
	c.weights = dst[:c.out*taps]
	for l := 0; l < taps; l += gemm.BlockK {
		k := min(gemm.BlockK, taps-l)
		for i := range c.out {
			first := i / height * height
			rows := min(height, c.out-first)
			panel := c.weights[l*c.out+first*k:][i-first:]
			at, tap := i*outStride+l/rs*inStride, l%rs
			for t := 0; t < k*rows; t += rows {
				panel[t] = w[at+int(c.index[tap])]
				if tap++; tap == rs {
					at, tap = at+inStride, 0
				}
			}
		}
	}
	return dst[c.out*taps:]
}

// run convolves one framed image into y.
func (c *call) run(image, y []float32) {
	for l := 0; l < len(c.taps); l += gemm.BlockK {
		k := min(gemm.BlockK, len(c.taps)-l)
		t := gemm.Tile{K: k, Off: &c.taps[l], Ldc: 4 * c.plane}
		if l > 0 {
			t.Add = 1
		}
		c.runTaps(&t, c.weights[l*c.out:][:k*c.out], image, y)
	}
}

// gather copies rows of width elements of the spread planes to planes of y.
func (c *call) gather(y []float32, rows, width, row, plane int) {
	to := geometry.PlaneCopy{Images: c.out, Rows: rows, Src: &c.spread[0], SrcImage: 4 * c.plane, SrcRow: 4 * c.Width, Dst: &y[0], DstImage: 4 * plane, DstRow: 4 * row}
	to.SetWidth(width, 1)
	to.Cut()
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
	return row*c.Width + col, row*c.row + col, min(c.Lanes, c.ow-col)
}

// column computes the pair of vectors for every output channel.
func (c *call) column(t *gemm.Tile, weights, y []float32, to0, to1 int) {
	height, plane := gemm.EvenRows(c.out, c.Rows), c.plane
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
