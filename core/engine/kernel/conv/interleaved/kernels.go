package interleaved

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// pixelCopy is a call that transposes pixels of as many planes as a vector has lanes to vectors of one pixel, or back. Planes lie plane bytes
// apart, and pixels at the byte offsets of the table, which has those of a whole block at least. The layout is known to
// gen/conv/interleaved.go, as are those below.
type pixelCopy struct {
	planes *float32
	plane  int
	at     *float32
	table  *int32
	blocks int         // of blockPixels
	back   int         // bytes of a plane that the last half of a block overlaps what is before it
	mask   kernel.Mask // of the pixels, if there are fewer than half a block
	rest   int         // how many these are
	ahead  int         // bytes behind the planes that are prefetched
	halves int         // of a block, behind the blocks
	near   int         // not 0: what is prefetched is so little that it stays in the L1 cache
	dense  int         // not 0: all pixels of a plane are copied, so that those of all planes lie side by side
}

// blockPixels are those of a plane in a cache line.
const blockPixels = 16

// setPixels is for n of them.
func (c *pixelCopy) setPixels(n int) {
	const half = blockPixels / 2
	if c.plane == 4*n {
		c.dense = 1
	}
	if n < half {
		c.blocks, c.halves, c.mask, c.rest = 0, 0, kernel.FirstLanes(n), n
		return
	}
	c.blocks, c.halves, c.rest = n/blockPixels, kernel.CeilDiv(n%blockPixels, half), 0
	c.back = 4 * (kernel.CeilDiv(n, half)*half - n)
}

// mostTaps is how many weights one call of the kernels below takes, and mostPairs those whose gradients it sums for two outputs.
const (
	mostTaps  = 9
	mostPairs = 6
)

// pixelSums is a call that computes parts, one after the other. A pixel sees what lies at its offset plus that of the tap.
type pixelSums struct {
	parts   *part
	count   int
	pixels  *int32 // bytes
	x       *float32
	list    *tap
	weights *float32
	bias    *float32
	y       *float32 // one pixel behind the other

	partAt, left int // room for the kernel: an address that it moves on is no pointer
}

// part is the pixels of a phase and up to mostTaps of its taps: y = bias + Σ weights·x, or y += Σ weights·x. Where these begin is bytes.
type part struct {
	pixelCount, pixels, y int
	taps, list            int
	add                   int // not 0: to y
}

const partElems = int(unsafe.Sizeof(part{})) / 4

// groupPixels is how many pixels the kernel below sums at a time.
const groupPixels = 8

// pixelPairs is a call for groups of pixels of two outputs of each channel, whose filters have more than mostTaps taps: y = bias + Σ weights·x.
type pixelPairs struct {
	groups  int
	pixels  *int32 // bytes
	x       *float32
	taps    int
	list    *tap
	weights *float32
	bias    *float32
	y       *float32 // one pixel behind the other

	weightNext, biasNext, yNext int // bytes to those of the second output
}

// tap is where a weight's vector lies, and what it sees: bytes.
type tap struct{ x, weight int32 }

// pixelDots is a call that adds dy·x over pixels to the sums of some weights, which lie pitch bytes apart.
type pixelDots struct {
	pixels int
	table  *int32
	dy     *float32 // one pixel behind the other
	sums   *float32
	pitch  int
	x      [mostTaps]*float32

	dyNext, sumsNext int // bytes to those of a second output
}
