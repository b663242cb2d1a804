package interleaved

import "github.com/trainctl/trainctl/core/engine/kernel"

// pixelCopy is a call that transposes pixels of as many planes as a vector has lanes to vectors of one pixel, or back. Planes lie plane bytes
// apart, and pixels at the byte offsets of the table, which has those of a whole block at least. The layout is known to
// gen/conv/interleaved.go, as are those below.
type pixelCopy struct {
	planes *float32
	plane  int
	at     *float32
	table  *int32
	blocks int         // of as many pixels as there are lanes
	back   int         // bytes of a plane that the last block of the pixels overlaps the one before it, or 0
	mask   kernel.Mask // of the pixels, if there are fewer than a block
	rest   int         // how many these are
	ahead  int         // bytes behind the planes that are prefetched
}

// setPixels is for n of them.
func (c *pixelCopy) setPixels(n int) {
	lanes := kernel.Lanes()
	c.blocks, c.back, c.rest = n/lanes, 0, n%lanes
	switch {
	case c.blocks == 0:
		c.mask = kernel.FirstLanes(n)
	case c.rest > 0:
		c.back = 4 * (lanes - c.rest)
	}
}

// groupPixels is how many pixels the kernel below sums at a time, and mostDots the weights whose gradients one call sums, or of two
// outputs mostPairs.
const (
	groupPixels = 8
	mostDots    = 9
	mostPairs   = 6
)

// pixelSums is a phase of a call, behind which the next one lies, for groups of pixels: y = bias + Σ weights·x. A pixel sees what lies at its offset plus that of the tap.
type pixelSums struct {
	groups  int
	pixels  *int32 // bytes
	x       *float32
	taps    int
	list    *tap
	weights *float32
	bias    *float32
	y       *float32 // one pixel behind the other

	weightNext, biasNext, yNext int // bytes to those of a second output
	last                        int // not 0 in the last phase
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
	x      [mostDots]*float32

	dyNext, sumsNext int // bytes to those of a second output
}
