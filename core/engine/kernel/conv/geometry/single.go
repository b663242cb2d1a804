package geometry

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Taps of filters of 1×1 that leave pixels out: one tap, without padding. Its orders stay in registers for all rows, and on the way back
// rows are written with the zeros between them, and behind them up to the next.

// spreadVectors is how many vectors of a row are spread at a time.
const spreadVectors = 4

// Single reports whether the orders of a block stay in registers for all rows.
func (t *Taps) Single() bool { return t.single }

// joinOrders makes one order of those of the first two vectors of each block.
func (t *Taps) joinOrders() {
	for orders := t.orders; len(orders) > 0; orders = orders[t.sources*kernel.Block:] {
		first, second := orders[:kernel.Block], orders[kernel.Block:2*kernel.Block]
		for i := range first {
			if second[i] < kernel.Block {
				second[i] = first[i] % kernel.Block
			}
		}
	}
}

// pick runs the kernel for each block, the last first: what it writes behind a row is overwritten by the blocks of the next row.
func (t *Taps) pick(rows *tapRows) {
	for i := len(t.blocks) - 1; i >= 0; i-- {
		c, b := *rows, &t.blocks[i] // a copy, so that rows does not escape
		c.table, c.orders = b, &t.orders[i*t.sources*kernel.Lanes()]
		c.src, c.dst = (*float32)(unsafe.Add(unsafe.Pointer(c.src), b.src)), (*float32)(unsafe.Add(unsafe.Pointer(c.dst), b.dst))
		switch t.sources {
		case 1:
			vecPickRows1(&c)
		case 2:
			vecPickRows2(&c)
		case 3:
			vecPickRows3(&c)
		case 4:
			vecPickRows4(&c)
		}
	}
}

// lastPlanes is how many planes of an image are spread elsewhere first, because vectors write behind them.
func (t *Taps) lastPlanes() int { return kernel.CeilDiv(kernel.Lanes(), t.image.H*t.image.W) }

// lastElems is the room for these.
func (t *Taps) lastElems() int {
	if t.single && t.back {
		return t.lastPlanes()*t.image.H*t.image.W + kernel.Lanes()
	}
	return 0
}

// spread writes whole planes, what one tap sees with zeros around it.
func (t *Taps) spread(c *tapRows, channels int, image, matrix []float32) {
	size, last := t.image.H*t.image.W, min(channels, t.lastPlanes())
	if rest := channels - last; rest > 0 {
		t.spreadPlanes(c, rest, image, matrix)
		image, matrix = image[rest*size:], matrix[rest*c.srcPlane/4:]
	}
	t.spreadPlanes(c, last, t.planes, matrix)
	copy(image[:last*size], t.planes)
}

// spreadPlanes runs the kernel for so many vectors of every row at a time, the last first: what it writes behind a row is
// overwritten by the first vectors of the next row.
func (t *Taps) spreadPlanes(rows *tapRows, planes int, image, matrix []float32) {
	p, lanes := &t.image, kernel.Lanes()
	zeros := func(rows int) int { return kernel.CeilDiv(max(0, rows*p.W-t.count*lanes), lanes) }
	c := *rows // a copy, so that rows does not escape
	c.rows, c.srcRow, c.dstRow = p.OutH(), 4*p.OutW(), 4*p.StrideH*p.W
	c.src, c.blocks, c.last = &matrix[0], zeros(p.StrideH), zeros(p.H-(p.OutH()-1)*p.StrideH)
	for first := (t.count - 1) / spreadVectors * spreadVectors; first >= 0; first -= spreadVectors {
		c.planes, c.table, c.orders, c.dst = planes, &t.blocks[first], &t.orders[first*lanes], &image[first*lanes]
		switch min(spreadVectors, t.count-first) {
		case 1:
			vecSpreadRows1(&c)
		case 2:
			vecSpreadRows2(&c)
		case 3:
			vecSpreadRows3(&c)
		case 4:
			vecSpreadRows4(&c)
		}
		c.blocks, c.last = 0, 0
	}
}
