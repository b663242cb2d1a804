package tiled

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// forward is a convolution of from channels to outs, or the gradient of the input, which has a convolution of dy for each phase of a
// stride.
type forward struct {
	p      geometry.Shape
	f      frame
	from   int // channels
	outs   int
	pairs  int // of channels
	blocks int // of pairs, of each pairs: those of a step
	each   int
	plane  int // pairs of pixels from a phase of the frame to the next
	grad   bool
	chunk  int // rows of the frame whose results are computed at a time

	image, filters, sums, turned []float32
	steps                        []amx.Step
	phases                       []phase // of what is computed: those of the gradient, or a single one
}

// phase is the steps of the taps that a phase of the results sees.
type phase struct{ first, count int32 }

// chunkPixels is about how many outputs of 32 channels are computed at a time, so that their sums stay in the L2 cache.
const chunkPixels = 256

func newForward(shape *geometry.Shape, gradInput bool) forward {
	p := flat(shape)
	c := forward{p: p, from: p.C, outs: p.K, grad: gradInput}
	if gradInput {
		c.from, c.outs, c.f = p.K, p.C, gradFrame(&p)
	} else {
		c.f = inputFrame(&p)
	}
	c.pairs = kernel.CeilDiv(c.from, 2)
	c.blocks = kernel.CeilDiv(c.pairs, amx.Pairs)
	c.each = kernel.CeilDiv(c.pairs, c.blocks)
	c.plane = c.f.plane(2*amx.Cols, kernel.Block)
	c.chunk = max(1, chunkPixels/c.f.width)
	return c
}

// sides is how many phases of columns the results have.
func (c *forward) sides() int {
	if c.grad {
		return c.p.StrideW
	}
	return 1
}

// results is how many phases they have.
func (c *forward) results() int {
	if c.grad {
		return c.p.StrideH * c.p.StrideW
	}
	return 1
}

// next is pairs of pixels from a plane of the frame to the next.
func (c *forward) next() int { return c.f.phases() * c.plane }

// planes is how many planes of pairs a frame has; the last ones may be zero.
func (c *forward) planes() int { return c.blocks * c.each }

// chunkElems is the pixels of a chunk, in whole products.
func (c *forward) chunkElems() int {
	const both = 2 * amx.Cols
	return kernel.CeilDiv(c.chunk*c.f.width, both) * both
}

func (c *forward) panels() int { return kernel.CeilDiv(c.outs, amx.Rows) }

// sumElems is the room for the sums of 32 channels, and what is read behind them.
func (c *forward) sumElems() int { return 2*amx.Rows*c.chunkElems() + kernel.Block }

func (c *forward) scratch() int {
	return kernel.Block + c.planes()*c.next() + c.filterElems() + c.sides()*c.sumElems() + c.turnedElems() + 2*c.p.R*c.p.S*c.blocks + 2*c.results()
}

// panel is the room for the tiles of 16 filters, which lie step by step: [blocks of channels][taps][16 filters][16 pairs].
func (c *forward) panel() int { return c.blocks * c.p.R * c.p.S * tileElems }

const tileElems = amx.Rows * amx.Pairs

// filterElems is the room for all panels, and what the last transposition writes too far.
func (c *forward) filterElems() int { return c.panels()*c.panel() + kernel.Block*tileElems }

// turnedElems is the room for a filter's pairs before they are transposed.
func (c *forward) turnedElems() int { return (c.planes() + kernel.Block) * kernel.Block }

func (c *forward) reserve(scratch []float32) {
	const line = 4 * kernel.Block
	scratch = scratch[-uintptr(unsafe.Pointer(&scratch[0]))%line/4:]
	c.image = cut(&scratch, c.planes()*c.next())
	c.filters = cut(&scratch, c.filterElems())
	c.sums = cut(&scratch, c.sides()*c.sumElems())
	c.turned = cut(&scratch, c.turnedElems())
	c.steps = steps(cut(&scratch, 2*c.p.R*c.p.S*c.blocks))
	c.phases = unsafe.Slice((*phase)(unsafe.Pointer(&scratch[0])), c.results())
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
	in, out := c.from*c.f.h*c.f.w, c.outs*c.p.OutH()*c.p.OutW()
	if c.grad {
		out = c.outs * c.p.H * c.p.W
	}
	for n := 0; n < c.p.N; n += c.f.images {
		images := min(c.f.images, c.p.N-n)
		c.fill(x[n*in:], images)
		c.convolve(images, bias, y[n*out:])
	}
}

// packFilters makes tiles of filters.
func (c *forward) packFilters(w []uint16) {
	taps := c.p.R * c.p.S
	out, in := c.from*taps, taps // between filters in w
	if c.grad {
		out, in = taps, c.outs*taps
	}
	for o := range c.outs {
		row := c.filters[o/amx.Rows*c.panel()+o%amx.Rows*amx.Pairs:]
		for t := (taps - 1) / kernel.Block * kernel.Block; t >= 0; t -= kernel.Block { // what is written behind the last tap is overwritten
			c.packRow(w[o*out+t:], in, min(kernel.Block, taps-t), row[t*tileElems:])
		}
	}
}

// packRow packs up to 16 taps of a filter, whose channels lie in elements apart.
func (c *forward) packRow(w []uint16, in, taps int, row []float32) {
	whole := c.from / 2
	if whole > 0 {
		gemm.PackPairs(whole, &w[0], &w[in], 4*in, taps, &c.turned[0], 4*kernel.Block)
	}
	if c.from%2 > 0 {
		gemm.PackPairs(1, &w[2*whole*in], &zeros[0], 0, taps, &c.turned[whole*kernel.Block], 0)
	}
	clear(c.turned[c.pairs*kernel.Block : c.planes()*kernel.Block])
	for b := range c.blocks {
		gemm.TransposeStrided(kernel.Block, c.each, taps, c.turned[b*c.each*kernel.Block:], kernel.Block, row[b*c.p.R*c.p.S*tileElems:], tileElems)
	}
}

// setSteps lists blocks of channels and taps, by the phases of the results. All taps of some channels see the same few lines of the
// frame, so they come one after the other.
func (c *forward) setSteps() {
	p, n := &c.p, 0
	for i := range c.phases {
		before := n
		for b := range c.blocks {
			for t := range p.R * p.S {
				if at, sees := c.tapAt(i, t/p.S*p.DilationH(), t%p.S*p.DilationW()); sees {
					c.steps[n] = amx.Step{A: int32(4 * (b*p.R*p.S + t) * tileElems), B: int32(4 * (b*c.each*c.next() + at))}
					n++
				}
			}
		}
		c.phases[i] = phase{int32(before), int32(n - before)}
	}
}

// tapAt is where the first result of a phase sees the tap that is so far down and right in its filter, or that it does not see it.
func (c *forward) tapAt(i, down, right int) (at int, sees bool) {
	p := &c.p
	if !c.grad {
		phase, at := c.f.place(down, right)
		return phase*c.plane + at, true
	}
	row, col := c.f.gapH+p.PadH/p.StrideH-down/p.StrideH, c.f.gapW+p.PadW/p.StrideW-right/p.StrideW
	return row*c.f.width + col, down%p.StrideH == i/p.StrideW && right%p.StrideW == i%p.StrideW
}

// fill copies images into the frame, two channels to a plane. Each copy writes whole vectors; what it clears behind a row is
// written later, or zero.
func (c *forward) fill(x []uint16, images int) {
	f, size := &c.f, c.f.h*c.f.w
	for pair := range c.pairs {
		to, even, odd := c.image[pair*c.next():], x[2*pair*size:], []uint16(nil)
		if 2*pair+1 < c.from {
			odd = even[size:]
		}
		if f.h == 1 && f.strideW == 1 && images > 1 && odd != nil { // images are rows
			c.fillRows(images, 0, even, odd, c.from*size, to, f.image())
			continue
		}
		for n := range images {
			c.fillImage(even[n*c.from*size:], from(odd, n*c.from*size), to[n*f.image():])
		}
	}
}

// from is what a slice holds from element i on; nil stays nil.
func from(x []uint16, i int) []uint16 {
	if x == nil {
		return nil
	}
	return x[i:]
}

// fillImage copies two channels of an image. Without a second one, its elements are zeros, for which a row is copied at a time.
func (c *forward) fillImage(even, odd []uint16, plane []float32) {
	f := &c.f
	for i := range min(f.strideH, f.h) {
		rows := kernel.CeilDiv(f.h-i, f.strideH)
		if odd != nil {
			c.fillRows(rows, i, even, odd, f.strideH*f.w, plane, f.width)
			continue
		}
		for row := range rows {
			c.fillRows(1, i+row*f.strideH, even, nil, 0, plane, 0)
		}
	}
}

// fillRows copies rows of two channels, from row i on. They are stride elements apart, and step in the plane.
func (c *forward) fillRows(rows, i int, even, odd []uint16, stride int, plane []float32, step int) {
	f := &c.f
	lanes := kernel.Block * f.strideW
	for col := (f.w - 1) / lanes * lanes; col >= 0; col -= lanes {
		n, second := min(lanes, f.w-col), &zeros[0]
		if odd != nil {
			second = &odd[i*f.w+col]
		}
		phase, at := f.place(i+f.gapH, col+f.gapW)
		left := &plane[phase*c.plane+at]
		if f.strideW == 1 {
			gemm.PackPairs(rows, &even[i*f.w+col], second, 2*stride, n, left, 4*step)
			continue
		}
		phase, at = f.place(i+f.gapH, col+1+f.gapW)
		amx.SplitPairs(rows, n, &even[i*f.w+col], second, 2*stride, left, &plane[phase*c.plane+at], 4*step)
	}
}

// zeros are the partners of a last channel.
var zeros [2 * kernel.Block]uint16

// convolve computes a group's results, some rows of 32 channels at a time.
func (c *forward) convolve(images int, bias []float32, y []uint16) {
	f := &c.f
	t := amx.Product{ARow: 4 * amx.Pairs, ANext: 4 * c.panel(), BRow: 4 * c.next(), BNext: 4 * amx.Cols, BMove: 2 * 4 * amx.Cols,
		CRow: 4 * c.chunkElems(), CNext: 4 * amx.Cols, CMove: 2 * 4 * amx.Cols}
	for row := 0; row < f.rows(images); row += c.chunk {
		count := min(c.chunk, f.rows(images)-row)
		t.Count = kernel.CeilDiv(count*f.width, 2*amx.Cols)
		t.B = &halves(c.image)[2*row*f.width]
		for out := 0; out < c.outs; out += 2 * amx.Rows {
			outs := min(2*amx.Rows, c.outs-out)
			t.SetTiles(outs, 2*amx.Cols, c.each)
			t.A = &halves(c.filters)[2*out/amx.Rows*c.panel()]
			for i := range c.phases {
				side := i % c.sides()
				c.sum(&t, c.phases[i], c.sums[side*c.sumElems():][:c.sumElems()])
				if side == c.sides()-1 {
					c.write(result{i / c.sides(), row, count, out, outs}, bias, y)
				}
			}
		}
	}
}

// sum computes the sums of a phase.
func (c *forward) sum(t *amx.Product, p phase, sums []float32) {
	if p.count == 0 {
		clear(sums)
		return
	}
	t.Off, t.Steps, t.C = &c.steps[p.first], int(p.count), &sums[0]
	t.Run()
}

// result is rows of some channels, of a phase of rows of the gradient.
type result struct{ phase, row, rows, out, outs int }

// write rounds sums to where they belong.
func (c *forward) write(r result, bias []float32, y []uint16) {
	f := &c.f
	for o := range r.outs {
		sums, b := c.sums[o*c.chunkElems():], float32(0)
		if bias != nil {
			b = bias[r.out+o]
		}
		if f.perImage == 1 && f.strideH*c.results() == 1 { // images are rows
			amx.RoundRows(r.rows, f.ow, &sums[0], 4*f.width, b, &y[(r.row*c.outs+r.out+o)*f.ow], 2*c.outs*f.ow)
			continue
		}
		for at := r.row; at < r.row+r.rows; {
			n, first := at/f.perImage, at%f.perImage
			c.writeImage(r.phase, first, min(f.oh-first, r.row+r.rows-at), sums[(at-r.row)*f.width:], b, y, n*c.outs+r.out+o)
			at += f.perImage - first
		}
	}
}

// writeImage rounds rows of a plane of the results, from row first of it on.
func (c *forward) writeImage(phase, first, rows int, sums []float32, bias float32, y []uint16, plane int) {
	f, size := &c.f, c.p.H*c.p.W
	switch {
	case rows <= 0:
	case c.grad:
		c.writeGrad(phase, first, rows, sums, y[plane*size:][:size])
	default:
		amx.RoundRows(rows, f.ow, &sums[0], 4*f.width, bias, &y[plane*f.oh*f.ow+first*f.ow], 2*f.ow)
	}
}

// writeGrad writes rows of a phase of dx from row first of it on.
func (c *forward) writeGrad(phase, first, rows int, sums []float32, dx []uint16) {
	p := &c.p
	row := (first+p.PadH/p.StrideH)*p.StrideH + phase - p.PadH
	if row < 0 { // it sees no pixel
		row, rows, sums = row+p.StrideH, rows-1, sums[c.f.width:]
	}
	rows = min(rows, kernel.CeilDiv(p.H-row, p.StrideH))
	switch {
	case rows <= 0:
	case p.StrideW == 1:
		amx.RoundRows(rows, p.W, &sums[0], 4*c.f.width, 0, &dx[row*p.W], 2*p.StrideH*p.W)
	default:
		left, right := &sums[0], &sums[c.sumElems()]
		if p.PadW%2 > 0 {
			left, right = right, &sums[1]
		}
		amx.RoundPairs(rows, p.W, left, right, 4*c.f.width, &dx[row*p.W], 2*p.StrideH*p.W)
	}
}
