package tiled

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// forward is a convolution of from channels to outs, or the gradient of the input, which is one with flipped filters.
type forward struct {
	p       geometry.Shape
	f       frame
	from    int // channels
	outs    int
	pairs   int // of channels
	blocks  int // of pairs, of each pairs: those of a step
	each    int
	plane   int // pairs of pixels from a plane of the frame to the next
	flipped bool
	row     int // float32 in a row of packed filters
	chunk   int // rows of the frame whose outputs are computed at a time

	image, filters, sums, turned []float32
	steps                        []amx.Step
}

// chunkPixels is about how many outputs of 32 channels are computed at a time, so that their sums stay in the L2 cache.
const chunkPixels = 256

func newForward(p *geometry.Shape, gradInput bool) forward {
	c := forward{p: *p, from: p.C, outs: p.K, flipped: gradInput}
	c.f = newFrame(p.N, p.H, p.W, p.OutH(), p.OutW(), p.PadH, p.PadW)
	if gradInput {
		c.from, c.outs = p.K, p.C
		c.f = newFrame(p.N, p.OutH(), p.OutW(), p.H, p.W, p.DilationH()*(p.R-1)-p.PadH, p.DilationW()*(p.S-1)-p.PadW)
	}
	c.pairs = kernel.CeilDiv(c.from, 2)
	c.blocks = kernel.CeilDiv(c.pairs, amx.Pairs)
	c.each = kernel.CeilDiv(c.pairs, c.blocks)
	c.plane = c.f.plane(reach(p, c.f.width), 2*amx.Cols, kernel.Block)
	c.row = p.R*p.S*c.tapElems() + kernel.Block
	c.chunk = max(1, chunkPixels/c.f.width)
	return c
}

// tapElems is the room for a tap of all channels in a row of packed filters: whole vectors of pairs.
func (c *forward) tapElems() int { return kernel.CeilDiv(c.pairs, kernel.Block) * kernel.Block }

// planes is how many planes of pairs a frame has; the last ones may be zero.
func (c *forward) planes() int { return c.blocks * c.each }

// chunkElems is the pixels of a chunk, in whole products.
func (c *forward) chunkElems() int {
	const both = 2 * amx.Cols
	return kernel.CeilDiv(c.chunk*c.f.width, both) * both
}

func (c *forward) panels() int { return kernel.CeilDiv(c.outs, amx.Rows) }

func (c *forward) scratch() int {
	return kernel.Block + c.planes()*c.plane + c.filterElems() + 2*amx.Rows*c.chunkElems() + c.turnedElems() + 2*c.p.R*c.p.S*c.blocks
}

// filterElems is the room for packed filters, and what the last transposition writes too far.
func (c *forward) filterElems() int { return c.panels()*amx.Rows*c.row + kernel.Block*c.tapElems() }

// turnedElems is the room for a filter's pairs before they are transposed.
func (c *forward) turnedElems() int { return (c.pairs + kernel.Block) * kernel.Block }

func (c *forward) reserve(scratch []float32) {
	const line = 4 * kernel.Block
	scratch = scratch[-uintptr(unsafe.Pointer(&scratch[0]))%line/4:]
	c.image = cut(&scratch, c.planes()*c.plane)
	c.filters = cut(&scratch, c.filterElems())
	c.sums = cut(&scratch, 2*amx.Rows*c.chunkElems())
	c.turned = cut(&scratch, c.turnedElems())
	c.steps = steps(cut(&scratch, 2*c.p.R*c.p.S*c.blocks))
	clear(c.image)
}

// DirectionScratch is the number of scratch elements that a direction needs.
func DirectionScratch(p *geometry.Shape, d geometry.Direction) int {
	if d == geometry.ToWeight {
		c := newWeight(p)
		return c.scratch()
	}
	c := newForward(p, d == geometry.ToInput)
	return c.scratch()
}

// Forward computes y = conv(x, w) + bias with float32 sums, rounded once; bias may be nil.
func Forward(p *geometry.Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	c := newForward(p, false)
	c.run(x, w, bias, y, scratch)
}

// GradInput overwrites dx with the gradient of the input, rounded once.
func GradInput(p *geometry.Shape, dy, w, dx []uint16, scratch []float32) {
	c := newForward(p, true)
	c.run(dy, w, nil, dx, scratch)
}

func (c *forward) run(x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	c.reserve(scratch)
	c.packFilters(w)
	c.setSteps()
	in, out := c.from*c.f.h*c.f.w, c.outs*c.f.oh*c.f.ow
	for n := 0; n < c.p.N; n += c.f.images {
		images := min(c.f.images, c.p.N-n)
		c.fill(x[n*in:], images)
		c.convolve(images, bias, y[n*out:])
	}
}

// packFilters makes rows of filters: [outs][taps][pairs of channels].
func (c *forward) packFilters(w []uint16) {
	taps := c.p.R * c.p.S
	out, in := c.from*taps, taps // between filters in w
	if c.flipped {
		out, in = taps, c.outs*taps
	}
	for o := range c.outs {
		for t := 0; t < taps; t += kernel.Block {
			c.packRow(w[o*out+t:], in, min(kernel.Block, taps-t), c.filters[o*c.row+t*c.tapElems():])
		}
	}
}

// packRow packs up to 16 taps of all channels, which lie in elements apart.
func (c *forward) packRow(w []uint16, in, taps int, dst []float32) {
	whole := c.from / 2
	if whole > 0 {
		gemm.PackPairs(whole, &w[0], &w[in], 4*in, taps, &c.turned[0], 4*kernel.Block)
	}
	if c.from%2 > 0 {
		last := c.turned[whole*kernel.Block:][:kernel.Block]
		gemm.PackPairs(1, &w[2*whole*in], &zeros[0], 0, taps, &last[0], 0)
	}
	clear(c.turned[c.pairs*kernel.Block:][:(c.tapElems()-c.pairs)*kernel.Block])
	gemm.TransposeStrided(kernel.Block, c.tapElems(), taps, c.turned, kernel.Block, dst, c.tapElems())
}

// zeros are the partners of a last channel.
var zeros [kernel.Block]uint16

// setSteps lists taps and blocks of channels in the order of packed filters.
func (c *forward) setSteps() {
	p := &c.p
	for t := range p.R * p.S {
		seen := t
		if c.flipped {
			seen = p.R*p.S - 1 - t
		}
		r, s := seen/p.S, seen%p.S
		for b := range c.blocks {
			c.steps[t*c.blocks+b] = amx.Step{
				A: int32(4 * (t*c.tapElems() + b*c.each)),
				B: int32(4 * (b*c.each*c.plane + r*p.DilationH()*c.f.width + s*p.DilationW())),
			}
		}
	}
}

// fill copies images into the frame, two channels to a plane. Each copy writes whole vectors; what it clears behind a row is
// written later, or zero.
func (c *forward) fill(x []uint16, images int) {
	f, size := &c.f, c.f.h*c.f.w
	for pair := range c.pairs {
		for n := range images {
			even := x[(n*c.from+2*pair)*size:]
			to := c.image[pair*c.plane+n*f.image+f.first():]
			for col := (f.w - 1) / kernel.Block * kernel.Block; col >= 0; col -= kernel.Block {
				lanes := min(kernel.Block, f.w-col)
				if 2*pair+1 < c.from {
					gemm.PackPairs(f.h, &even[col], &even[size+col], 2*f.w, lanes, &to[col], 4*f.width)
					continue
				}
				for row := range f.h {
					gemm.PackPairs(1, &even[row*f.w+col], &zeros[0], 0, lanes, &to[row*f.width+col], 0)
				}
			}
		}
	}
}

// convolve computes a group's outputs, some rows of 32 channels at a time.
func (c *forward) convolve(images int, bias []float32, y []uint16) {
	f := &c.f
	rows := f.rows(images)
	t := amx.Product{ARow: 4 * c.row, ANext: 4 * amx.Rows * c.row, BRow: 4 * c.plane, BNext: 4 * amx.Cols, BMove: 2 * 4 * amx.Cols,
		Off: &c.steps[0], Steps: len(c.steps), C: &c.sums[0], CRow: 4 * c.chunkElems(), CNext: 4 * amx.Cols, CMove: 2 * 4 * amx.Cols}
	for row := 0; row < rows; row += c.chunk {
		count := min(c.chunk, rows-row)
		t.Count = kernel.CeilDiv(count*f.width, 2*amx.Cols)
		t.B = &halves(c.image)[2*row*f.width]
		for out := 0; out < c.outs; out += 2 * amx.Rows {
			outs := min(2*amx.Rows, c.outs-out)
			t.SetTiles(outs, 2*amx.Cols, c.each)
			t.A = &halves(c.filters)[2*out*c.row]
			t.Run()
			c.write(row, count, out, outs, bias, y)
		}
	}
}

// write rounds the sums of rows of some channels to where they belong.
func (c *forward) write(row, rows, out, outs int, bias []float32, y []uint16) {
	f := &c.f
	perImage, plane := f.image/f.width, f.oh*f.ow
	for at := row; at < row+rows; {
		n, first := at/perImage, at%perImage
		count := min(f.oh-first, row+rows-at)
		if count > 0 {
			for o := range outs {
				b := float32(0)
				if bias != nil {
					b = bias[out+o]
				}
				amx.RoundRows(count, f.ow, &c.sums[o*c.chunkElems()+(at-row)*f.width], 4*f.width, b, &y[(n*c.outs+out+o)*plane+first*f.ow], 2*f.ow)
			}
		}
		at += perImage - first
	}
}
