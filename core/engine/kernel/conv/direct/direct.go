package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The float32 convolution: the micro-kernels read the taps straight
// from an image that was copied into a zero frame, through a table of offsets.
// No column matrix exists. The gradient for the input (grad.go) is a convolution with stride 1
// over dy in a frame of its own, for every phase of a pixel's position.

// Takes reports whether a direction can be computed directly at the active level.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	return p.FitsFrame() && (d != geometry.ToWeight || takesWeight(p) || fitsFilters(p, d)) && (d != geometry.ToInput || takesInput(p))
}

// lanesOf is how many lanes the vectors have that compute out planes of oh×ow by so many taps of each channel of a frame.
func lanesOf(taps int, f *geometry.Frame, out, oh, ow int) int {
	const eight = 8
	wide, narrow := vectorsOf(kernel.Lanes(), f, out, oh, ow), vectorsOf(eight, f, out, oh, ow)
	return cost.TileLanes(wide, narrow, f.Channels*taps, out)
}

// vectorsOf is how many vectors of so many lanes a plane takes.
func vectorsOf(lanes int, f *geometry.Frame, out, oh, ow int) int {
	if n := spread(lanes, f, out, oh, ow); n > 0 {
		return kernel.CeilDiv(n/out, lanes)
	}
	return oh * kernel.CeilDiv(ow, lanes)
}

// spread is the room for out planes of oh×ow whose rows lie as far apart as the
// frame's, or 0 if that does not pay. It does for narrow images: a vector then
// crosses the ends of rows, and what it computes in between is dropped.
func spread(lanes int, f *geometry.Frame, out, oh, ow int) int {
	width := (oh-1)*f.Width + ow
	if (width+lanes-1)/lanes >= (ow+lanes-1)/lanes*oh {
		return 0
	}
	return out * width
}

// Scratch is what a direction of direct convolution needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	switch d {
	case geometry.ToOutput:
		if takesFilters(p, d) {
			f := newFilters(p, geometry.ToOutput)
			return f.scratch(d)
		}
		if takesForwardViews(p) {
			return forwardViewScratch(p)
		}
		f, kg := p.InputFrame(), p.K/p.GroupCount()
		c := newCall(p.R*p.S, f, kg, p.OutH(), p.OutW())
		return f.Elems() + spread(c.Lanes, &f, kg, p.OutH(), p.OutW()) + tapElems(p, f.Channels, kg)
	case geometry.ToInput:
		return newGradOut(p).scratch()
	}
	return weightScratch(p)
}

// tapElems is the room for the tables of all taps of channels, and their weights for out others; and for a vector that is read behind the rows
// before them.
func tapElems(p *geometry.Shape, channels, out int) int {
	return p.R*p.StrideW + p.R*p.S + channels*p.R*p.S*(1+out) + kernel.Block
}

// call is one convolution of every image of a group: out planes of oh×ow
// from a frame.
type call struct {
	gemm.TileShape
	geometry.Frame
	out, oh, ow int       // as the tiles see them: one long row if spread
	row, plane  int       // elements between the rows of y and between its planes, as the tiles see them
	spread      []float32 // planes with gaps between their rows, or nil
	crosses     bool      // vectors cross the ends of rows
	down        []int32   // rows that each row of taps looks down
	index       []int32   // of each tap's weight among those of a channel
	taps        []int32   // byte offset of each product's x from the pixel's own place, by row of taps, then channel
	weights     []float32 // packed panels, see packTaps
	bias        []float32
}

// newCall computes out planes of oh×ow that lie side by side, by so many taps of each channel.
func newCall(taps int, f geometry.Frame, out, oh, ow int) call {
	return call{TileShape: gemm.TileOf(lanesOf(taps, &f, out, oh, ow)), Frame: f, out: out, oh: oh, ow: ow, row: ow, plane: oh * ow}
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	if takesFilters(p, geometry.ToOutput) {
		forwardByFilters(p, x, w, bias, y, scratch)
		return
	}
	if takesForwardViews(p) {
		forwardByViews(p, x, w, bias, y, scratch)
		return
	}
	g, kg, oh, ow := p.GroupCount(), p.K/p.GroupCount(), p.OutH(), p.OutW()
	c := newCall(p.R*p.S, p.InputFrame(), kg, oh, ow)
	image, rest := scratch[:c.Elems()], scratch[c.Elems():]
	clear(image)
	if n := spread(c.Lanes, &c.Frame, kg, oh, ow); n > 0 {
		c.spread, rest = rest[:n], rest[n:]
		c.spreadRows()
	}
	rest = c.reserve(p.R, p.S, rest)
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
	c.oh, c.ow, c.row, c.plane, c.crosses = 1, width, width, width, true
}

// reserve cuts the tables of taps, of which every channel has rows×cols, from scratch; the rest is for the weights.
func (c *call) reserve(rows, cols int, scratch []float32) (rest []float32) {
	table := func(n int) []int32 {
		if n == 0 {
			return nil
		}
		t := unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), n)
		scratch = scratch[n:]
		return t
	}
	c.down, c.index, c.taps = table(rows), table(rows*cols), table(c.Channels*rows*cols)
	return scratch
}

// setTap says for every channel that tap i, whose weight has that index, looks h rows down and w columns right.
func (c *call) setTap(i, index, h, w int) {
	cols := len(c.index) / len(c.down)
	c.index[i], c.down[i/cols] = int32(index), int32(h)
	for ch := range c.Channels {
		c.taps[(i/cols*c.Channels+ch)*cols+i%cols] = int32(4 * (ch*c.Plane + c.At(h, w)))
	}
}

// packTaps packs the weights as Gemm packs A, block of taps by block of taps:
// element (out, in, index) is at out·outStride + in·inStride + index. It returns what is left of dst.
func packTaps(c *call, w []float32, outStride, inStride int, dst []float32) (rest []float32) {
	height, taps := gemm.EvenRows(c.out, c.Rows), len(c.taps)
	c.weights = dst[:c.out*taps]
	for l := 0; l < taps; l += gemm.BlockK {
		k := min(gemm.BlockK, taps-l)
		for i := range c.out {
			first := i / height * height
			rows := min(height, c.out-first)
			panel := c.weights[l*c.out+first*k:][i-first:]
			c.packRow(w[i*outStride:], inStride, l, rows, panel[:(k-1)*rows+1])
		}
	}
	return dst[c.out*taps:]
}

// packRow writes an output's weights of the taps from l on to every step-th element of panel.
func (c *call) packRow(w []float32, inStride, l, step int, panel []float32) {
	cols := len(c.index) / len(c.down)
	r, ch, s := l/cols/c.Channels, l/cols%c.Channels, l%cols
	for t := 0; t < len(panel); t += step {
		panel[t] = w[ch*inStride+int(c.index[r*cols+s])]
		if s++; s == cols {
			s = 0
			if ch++; ch == c.Channels {
				r, ch = r+1, 0
			}
		}
	}
}

// gather copies rows of width elements of the spread planes to planes of y.
func (c *call) gather(y []float32, rows, width, row, plane int) {
	to := geometry.PlaneCopy{Images: c.out, Rows: rows, Src: &c.spread[0], SrcImage: 4 * c.plane, SrcRow: 4 * c.Width, Dst: &y[0], DstImage: 4 * plane, DstRow: 4 * row}
	to.SetWidth(width, 1)
	to.Cut()
}
