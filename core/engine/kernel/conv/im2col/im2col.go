package im2col

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution for every geometry and type: the patches that a block of
// output pixels looks at become the columns of a matrix (im2col, Chellapilla,
// Puri and Simard, 2006), some channels at a time, and Gemm does the rest. Blocks
// run over rows of all images, so that small images fill them as well as large ones.
// The gradient for the input of a strided convolution is one with stride 1 for
// every phase of a pixel's position, with those taps that reach it.

// Bounds of a block: its pixels, a single row aside, and the rows of its matrix,
// a single channel aside. The matrix and what Gemm makes of it stay in L2.
const (
	blockPixels = 384
	blockTaps   = 256
)

// call is one convolution of a group of channels of each image.
type call struct {
	images, between int // elements of all channels of an image
	channels        int
	vert, hori      geometry.Axis
	rows            int // of pixels in a block, counted over all images
	chunk           int // channels in a block
	width, line     int // of a row of a frame, for one phase of the stride and for all
}

func newCall(images, between, channels int, vert, hori geometry.Axis) call {
	c := call{images: images, between: between, channels: channels, vert: vert, hori: hori}
	c.rows = min(images*vert.Out, max(1, blockPixels/hori.Out))
	taps := min(blockTaps, blockTaps*blockPixels/c.pixels())
	c.chunk = min(channels, max(1, taps/c.taps()))
	c.width = kernel.CeilDiv(hori.Span(hori.Out), hori.Stride)
	c.line = hori.Stride * c.width
	return c
}

// inputCall are those of one group of x.
func inputCall(p *geometry.Shape) call {
	return newCall(p.N, p.C*p.H*p.W, p.C/p.GroupCount(),
		geometry.Axis{In: p.H, Out: p.OutH(), Stride: p.StrideH, Taps: p.R, First: -p.PadH, Step: p.DilationH()},
		geometry.Axis{In: p.W, Out: p.OutW(), Stride: p.StrideW, Taps: p.S, First: -p.PadW, Step: p.DilationW()})
}

// pixels is the number of columns of a full block.
func (c *call) pixels() int { return c.rows * c.hori.Out }

func (c *call) taps() int { return c.vert.Taps * c.hori.Taps }

// frameElems is the room for what a block looks at of one channel: a band of rows for every image.
func (c *call) frameElems() int {
	bands := min(c.rows, (c.rows-1)/c.vert.Out+2)
	return (c.rows*c.vert.Stride+bands*max(0, c.vert.Reach()-c.vert.Stride))*c.line + geometry.RunLength
}

func (c *call) columnElems() int { return c.chunk*c.taps()*c.pixels() + geometry.RunLength }

// room is that for frames, columns and m planes of a block.
func (c *call) room(m int) int { return c.frameElems() + c.columnElems() + m*c.pixels() }

// scratch is what multiply needs for m planes.
func (c *call) scratch(m int) int {
	return c.room(m) + gemm.GemmScratch(m, c.pixels(), c.chunk*c.taps())
}

// phaseCall are those of one group of dy that give a phase of dx.
func phaseCall(p *geometry.Shape, h, w geometry.Phase) call {
	return newCall(p.N, p.K*p.OutH()*p.OutW(), p.K/p.GroupCount(), h.Axis, w.Axis)
}

// transposeWeights writes the weights of a phase's taps as [C, K, taps]. It takes 16
// of K at a time, so that what it reads comes in few streams.
func transposeWeights[T kernel.Float](p *geometry.Shape, h, v geometry.Phase, w, transposed []T) {
	cg, kg, n := p.C/p.GroupCount(), p.K/p.GroupCount(), h.N*v.N
	step := p.PatchSize()
	for first := 0; first < kg; first += 16 {
		for c := range cg {
			to := transposed[(c*kg+first)*n:][:min(16, kg-first)*n]
			from := w[(first*cg+c)*p.R*p.S:]
			for r := range h.N {
				for s := range v.N {
					at := (h.FirstTap+r*h.EveryTap)*p.S + v.FirstTap + s*v.EveryTap
					for i := r*v.N + s; i < len(to); i += n {
						to[i] = from[at]
						at += step
					}
				}
			}
		}
	}
}

// Scratch is the number of scratch elements that Forward needs.
func Scratch(p *geometry.Shape) int {
	c := inputCall(p)
	return c.scratch(p.K / p.GroupCount())
}

// GradWeightScratch is the number of scratch elements that GradWeight needs.
func GradWeightScratch(p *geometry.Shape) int {
	c, kg := inputCall(p), p.K/p.GroupCount()
	return c.room(kg) + gemm.GemmScratch(kg, c.chunk*c.taps(), c.pixels())
}

// GradInputScratch has room for transposed weights besides.
func GradInputScratch(p *geometry.Shape) int {
	n := 0
	p.Phases(func(h, w geometry.Phase) {
		c := phaseCall(p, h, w)
		n = max(n, c.scratch(p.C/p.GroupCount())+p.C/p.GroupCount()*c.channels*c.taps())
	})
	return n
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward[T kernel.Float](p *geometry.Shape, x, w, bias, y, scratch []T) {
	kg, c := p.K/p.GroupCount(), inputCall(p)
	out := planes{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW(), 0, 1, 0, 1}
	for g := range p.GroupCount() {
		var b []T
		if bias != nil {
			b = bias[g*kg:][:kg]
		}
		multiply(&c, kg, w[g*kg*p.PatchSize():], x[g*c.channels*p.H*p.W:], b, &out, y[g*kg*out.h*out.w:], scratch)
	}
}

// GradInput overwrites dx with the gradient of the input.
func GradInput[T kernel.Float](p *geometry.Shape, dy, w, dx, scratch []T) {
	cg, kg := p.C/p.GroupCount(), p.K/p.GroupCount()
	reached := 0
	p.Phases(func(_, _ geometry.Phase) { reached++ })
	if reached < p.StrideH*p.StrideW { // by few taps, or by a dilation with a factor of the stride
		clear(dx[:p.N*p.C*p.H*p.W])
	}
	p.Phases(func(h, v geometry.Phase) {
		c, out := phaseCall(p, h, v), planes{p.H, p.W, p.C * p.H * p.W, h.Pixel, p.StrideH, v.Pixel, p.StrideW}
		transposed := scratch[:cg*kg*c.taps()]
		for g := range p.GroupCount() {
			transposeWeights(p, h, v, w[g*kg*p.PatchSize():], transposed)
			multiply(&c, cg, transposed, dy[g*kg*p.OutH()*p.OutW():], nil, &out, dx[g*cg*p.H*p.W:], scratch[len(transposed):])
		}
	})
}

// multiply computes m planes of every image from a [m, channels·taps] and
// the columns of x, and adds bias if there is any.
func multiply[T kernel.Float](c *call, m int, a, x, bias []T, out *planes, y, scratch []T) {
	frames, scratch := scratch[:c.frameElems()], scratch[c.frameElems():]
	columns, scratch := scratch[:c.columnElems()], scratch[c.columnElems():]
	block, scratch := scratch[:m*c.pixels()], scratch[m*c.pixels():]
	lda := c.channels * c.taps()
	for first := 0; first < c.images*c.vert.Out; first += c.rows {
		end := min(first+c.rows, c.images*c.vert.Out)
		n := (end - first) * c.hori.Out
		var beta T
		if bias != nil {
			beta = 1
			for i := range m {
				elementwise.Fill(block[i*n:][:n], bias[i])
			}
		}
		for ch := 0; ch < c.channels; ch += c.chunk {
			count := min(c.chunk, c.channels-ch)
			writeColumns(c, x, ch, count, first, end, frames, columns)
			gemm.Gemm(false, false, m, n, count*c.taps(), 1, a[ch*c.taps():], lda, columns, n, beta, block, n, scratch)
			beta = 1
		}
		moveRows(c, out, m, first, end, block, y, false)
	}
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight[T kernel.Float](p *geometry.Shape, x, dy, dw, scratch []T, accumulate bool) {
	kg, c, size := p.K/p.GroupCount(), inputCall(p), p.PatchSize()
	out := planes{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW(), 0, 1, 0, 1}
	frames, scratch := scratch[:c.frameElems()], scratch[c.frameElems():]
	columns, scratch := scratch[:c.columnElems()], scratch[c.columnElems():]
	block, scratch := scratch[:kg*c.pixels()], scratch[kg*c.pixels():]
	if !accumulate {
		clear(dw[:p.K*size])
	}
	for g := range p.GroupCount() {
		for first := 0; first < p.N*out.h; first += c.rows {
			end := min(first+c.rows, p.N*out.h)
			n := (end - first) * out.w
			moveRows(&c, &out, kg, first, end, block, dy[g*kg*out.h*out.w:], true)
			for ch := 0; ch < c.channels; ch += c.chunk {
				count := min(c.chunk, c.channels-ch)
				writeColumns(&c, x[g*c.channels*p.H*p.W:], ch, count, first, end, frames, columns)
				gemm.Gemm(false, true, kg, count*c.taps(), n, 1, block, n, columns, n, 1, dw[g*kg*size+ch*c.taps():], size, scratch)
			}
		}
	}
}

// planes says where the planes of the result lie: of h×w pixels, image
// after image, of which those at rows h0, h0+stepH, … and columns likewise belong to this product.
type planes struct{ h, w, between, h0, stepH, w0, stepW int }

// moveRows copies a block [m, pixels] to the planes of y, or back.
func moveRows[T kernel.Float](c *call, o *planes, m, first, end int, block, y []T, back bool) {
	n, wide := (end-first)*c.hori.Out, c.hori.Out
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.vert.Out)
		row += s.Rows
		for i := range m {
			plane, part := y[s.Image*o.between+i*o.h*o.w:][:o.h*o.w], block[i*n+s.Before*wide:][:s.Rows*wide]
			switch {
			case back:
				copy(part, plane[s.Row*wide:])
			case o.stepH == 1 && o.stepW == 1:
				copy(plane[s.Row*wide:], part)
			default:
				spreadRows(o, plane, s.Row, part, wide)
			}
		}
	}
}

// spreadRows writes rows from row on, wide pixels each, to the places of a phase.
func spreadRows[T kernel.Float](o *planes, plane []T, row int, part []T, wide int) {
	for ; len(part) > 0; part = part[wide:] {
		dst := plane[(o.h0+row*o.stepH)*o.w+o.w0:]
		row++
		geometry.SpreadPhase(part[:wide], dst, o.stepW)
	}
}
