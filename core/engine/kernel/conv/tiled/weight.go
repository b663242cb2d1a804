package tiled

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// weight is a weight gradient: sums [filters/16][channels/16][16 channels][taps][16 filters].
type weight struct {
	p       geometry.Shape
	f       frame
	pixels  int // of a group, in whole steps
	plane   int // bfloat16 from a phase of a plane of x in the frame to the next, and from a plane of dy to the next
	taps    int
	x, dy   []float32 // planes of bfloat16
	turned  []float32 // dy: [filters/16][pairs of pixels][16]
	sums    []float32
	columns []float32 // 16 filters of 16 channels, before they go to dw
	steps   []amx.Step
}

const (
	stepPixels = 2 * amx.Pairs
	// partSteps is how many steps a product has at most: rows of x of two tiles then stay in the L1 cache.
	partSteps = 16
)

func newWeight(shape *geometry.Shape) weight {
	p := flat(shape)
	c := weight{p: p, taps: p.R * p.S}
	c.f = inputFrame(&p)
	c.pixels = kernel.CeilDiv(c.f.rows(c.f.images)*c.f.width, stepPixels) * stepPixels
	c.plane = c.f.plane(stepPixels, kernel.PairLanes)
	return c
}

// next is bfloat16 from a plane of x to the next.
func (c *weight) next() int { return c.f.phases() * c.plane }

// channels and filters are those of x and of dy in whole tiles.
func (c *weight) channels() int { return kernel.CeilDiv(c.p.C, amx.Rows) * amx.Rows }
func (c *weight) filters() int  { return kernel.CeilDiv(c.p.K, amx.Cols) * amx.Cols }

// panel is the room for 16 filters' pairs.
func (c *weight) panel() int { return c.pixels / 2 * amx.Cols }

func (c *weight) blockElems() int { return amx.Rows * c.taps * amx.Cols } // of sums

func (c *weight) sumElems() int { return c.channels() * c.taps * c.filters() }

func (c *weight) scratch() int {
	return kernel.Block + (c.channels()*c.next()+amx.Cols*c.plane)/2 + c.filters()/amx.Cols*c.panel() + c.sumElems() + c.blockElems() + 2*c.pixels/stepPixels
}

func (c *weight) reserve(scratch []float32) {
	const line = 4 * kernel.Block
	scratch = scratch[-uintptr(unsafe.Pointer(&scratch[0]))%line/4:]
	c.x = cut(&scratch, c.channels()*c.next()/2)
	c.dy = cut(&scratch, amx.Cols*c.plane/2)
	c.turned = cut(&scratch, c.filters()/amx.Cols*c.panel())
	c.sums = cut(&scratch, c.sumElems())
	c.columns = cut(&scratch, c.blockElems())
	c.steps = steps(cut(&scratch, 2*c.pixels/stepPixels))
	clear(c.x)
	clear(c.dy)
	for i := range c.steps {
		c.steps[i] = amx.Step{A: int32(2 * i * stepPixels), B: int32(2 * i * stepPixels * amx.Cols)}
	}
}

// GradWeight writes or adds the gradient of the weights to dw, unrounded.
func GradWeight(p *geometry.Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	c := newWeight(p)
	c.reserve(scratch)
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	for n := 0; n < p.N; n += c.f.images {
		images := min(c.f.images, p.N-n)
		c.fill(x[n*in:], images)
		c.turn(dy[n*out:], images)
		c.correlate(n > 0)
	}
	c.write(dw, accumulate)
}

// fill copies images of x into the frame. Of images that are not there, dy is zero.
func (c *weight) fill(x []uint16, images int) {
	f, size := &c.f, c.f.h*c.f.w
	for ch := range c.p.C {
		plane := halves(c.x)[ch*c.next():]
		if f.h == 1 && f.phases() == 1 { // images are rows
			copyRows(images, f.w, x[ch*size:], c.p.C*size, plane[f.first():], f.image())
			continue
		}
		for n := range images {
			from := x[(n*c.p.C+ch)*size:][:size]
			for i := range min(f.strideH, f.h) {
				c.fillRows(kernel.CeilDiv(f.h-i, f.strideH), i, from, plane[n*f.image():])
			}
		}
	}
}

// fillRows copies rows of a plane, from row i on.
func (c *weight) fillRows(rows, i int, from, plane []uint16) {
	f := &c.f
	phase, at := f.place(i+f.gapH, f.gapW)
	if f.strideW == 1 {
		copyRows(rows, f.w, from[i*f.w:], f.strideH*f.w, plane[phase*c.plane+at:], f.width)
		return
	}
	const lanes = kernel.PairLanes
	for col := (f.w - 1) / lanes * lanes; col >= 0; col -= lanes {
		phase, at := f.place(i+f.gapH, col+f.gapW)
		left := &plane[phase*c.plane+at]
		phase, at = f.place(i+f.gapH, col+1+f.gapW)
		amx.SplitWords(rows, min(lanes, f.w-col), &from[i*f.w+col], 2*f.strideH*f.w, left, &plane[phase*c.plane+at], 2*f.width)
	}
}

// turn brings dy into pairs of pixels of 16 filters.
func (c *weight) turn(dy []uint16, images int) {
	planes := halves(c.dy)
	for k := 0; k < c.p.K; k += amx.Cols {
		filters := min(amx.Cols, c.p.K-k)
		for i := range filters {
			c.fillGradient(dy[(k+i)*c.f.oh*c.f.ow:], images, planes[i*c.plane:])
		}
		gemm.TransposeStrided(kernel.Block, filters, c.pixels/2, c.dy, c.plane/2, c.turned[k/amx.Cols*c.panel():], amx.Cols)
	}
}

// fillGradient copies a filter's planes of dy to where the outputs of images begin in the frame.
func (c *weight) fillGradient(dy []uint16, images int, plane []uint16) {
	f, size := &c.f, c.f.oh*c.f.ow
	if f.oh == 1 && f.perImage == 1 { // images are rows
		copyRows(images, f.ow, dy, c.p.K*size, plane, f.width)
	} else {
		for n := range images {
			copyRows(f.oh, f.ow, dy[n*c.p.K*size:], f.ow, plane[n*f.image():], f.width)
		}
	}
	for row := range (f.images - images) * f.perImage {
		clear(plane[images*f.image()+row*f.width:][:f.ow])
	}
}

// copyRows copies rows of w bfloat16. It may clear what lies up to a vector behind each.
func copyRows(rows, w int, src []uint16, srcRow int, dst []uint16, dstRow int) {
	if w%2 > 0 {
		for r := range rows {
			copy(dst[r*dstRow:][:w], src[r*srcRow:][:w])
		}
		return
	}
	const lanes = kernel.PairLanes
	for col := (w - 1) / lanes * lanes; col >= 0; col -= lanes {
		gemm.PackAlong(rows, pair(src[col:]), 2*srcRow, kernel.FirstLanes(min(lanes, w-col)/2), pair(dst[col:]), 2*dstRow)
	}
}

// pair is the address of two bfloat16.
func pair(x []uint16) *float32 { return (*float32)(unsafe.Pointer(&x[0])) }

// correlate adds a group's products to the sums, or writes them.
func (c *weight) correlate(add bool) {
	block, down := c.blockElems(), c.channels()/amx.Rows*c.blockElems() // from 16 channels to the next, and from 16 filters to the next
	t := amx.Product{ARow: 2 * c.next(), ANext: 2 * amx.Rows * c.next(), BRow: 4 * amx.Cols, BNext: 4 * c.panel(), BMove: 2 * 4 * c.panel(),
		CRow: 4 * c.taps * amx.Cols, CNext: 4 * down, CMove: 2 * 4 * down}
	for s := 0; s < len(c.steps); s += partSteps {
		t.Off, t.Steps, t.Add = &c.steps[s], min(partSteps, len(c.steps)-s), 0
		if add || s > 0 {
			t.Add = 1
		}
		for ch := 0; ch < c.p.C; ch += 2 * amx.Rows {
			for tap := range c.taps {
				phase, at := c.f.place(tap/c.p.S*c.p.DilationH(), tap%c.p.S*c.p.DilationW())
				t.A = &halves(c.x)[ch*c.next()+phase*c.plane+at]
				c.columnsOf(&t, ch, c.sums[ch/amx.Rows*block+tap*amx.Cols:])
			}
		}
	}
}

// columnsOf runs a product for all filters. The second 16 of 32 channels have sums of their own block.
func (c *weight) columnsOf(t *amx.Product, ch int, sums []float32) {
	const both = 2 * amx.Cols
	channels := min(2*amx.Rows, c.p.C-ch)
	t.B, t.C = &halves(c.turned)[0], &sums[0]
	whole := c.p.K / both
	if t.Count = whole; whole > 0 {
		t.SetTiles(channels, both, amx.Pairs)
		t.Run()
	}
	if rest := c.p.K % both; rest > 0 {
		t.B = &halves(c.turned)[whole*2*2*c.panel()]
		t.C = &sums[whole*t.CMove/4]
		t.Count = 1
		t.SetTiles(channels, rest, amx.Pairs)
		t.Run()
	}
}

// write puts the sums where dw [K, C, R, S] has them, or adds them.
func (c *weight) write(dw []float32, accumulate bool) {
	for k := 0; k < c.p.K; k += amx.Cols {
		filters := min(amx.Cols, c.p.K-k)
		for ch := 0; ch < c.p.C; ch += amx.Rows {
			n := min(amx.Rows, c.p.C-ch) * c.taps
			rows := amx.Rows * c.taps
			from := c.sums[(k/amx.Cols*c.channels()+ch)*c.taps*amx.Cols:]
			gemm.TransposeStrided(kernel.Block, rows, amx.Cols, from, amx.Cols, c.columns, rows)
			for i := range filters {
				to, row := dw[((k+i)*c.p.C+ch)*c.taps:][:n], c.columns[i*rows:][:n]
				if accumulate {
					elementwise.AddTo(to, row)
				} else {
					copy(to, row)
				}
			}
		}
	}
}
