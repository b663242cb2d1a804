package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Where an output sees one pixel in its own place, as those of 1×1 filters do, the pixels of a plane are in the lanes, as they lie in
// memory: nothing is transposed, and any number of images is computed in the same way.

// seesOnePixel reports whether outputs do, and belong to groups of a few channels: package product has what others take. Sums are
// by rows, so there is no padding.
func (c *pass) seesOnePixel() bool {
	p := c.p
	few := c.outs <= maxRows || c.imageElems() <= nearElems
	return c.byRows && few && p.GroupCount() > 1 && p.R*p.S == 1 && p.StrideH*p.StrideW == 1 && c.in.pixels() >= narrow
}

// nearElems is how many pixels stay in the L1 cache from one panel of weights to the next.
const nearElems = 1 << 13

// imageElems is the pixels of an image in a group.
func (c *pass) imageElems() int { return (c.channels + c.outs) * c.in.pixels() }

// pixelLanes is how many pixels a vector has.
func (c *pass) pixelLanes() int {
	if c.in.pixels() < kernel.Lanes() {
		return narrow
	}
	return kernel.Lanes()
}

// blockImages is how many images are computed at a time: as many as stay near, or enough for tiles from image to image.
func (c *pass) blockImages() int {
	const fewest = 4
	return max(fewest, nearElems/c.imageElems())
}

// runPixels computes the planes of a group of all images.
func (c *pass) runPixels(x, packed, bias, y []float32) {
	block, height := c.blockImages(), c.height()
	for first := 0; first < c.p.N; first += block {
		images := min(block, c.p.N-first)
		if c.far() {
			for n := range images {
				touch(x[(first+n)*c.in.between:][:c.channels*c.in.pixels()])
			}
		}
		for i := 0; i < c.outs; i += height {
			t := nestTile{a: &packed[i*c.channels], bias: &geometry.NoBias[0]}
			if bias != nil {
				t.bias = &bias[i]
			}
			c.pixelTiles(&t, images, min(height, c.outs-i), x[first*c.in.between:], y[first*c.out.between+i*c.in.pixels():])
		}
	}
}

// far reports whether pixels do not stay in the last cache while other programs use it, too. Tiles go from plane to plane for each vector, which the hardware does not foresee.
func (c *pass) far() bool { return c.p.Images()*(c.in.between+c.out.between) >= cost.SharedElems }

// touch reads a value of each line of the cache, in the order of memory, so that all are near.
//
//go:noinline
func touch(x []float32) (sum float32) {
	const line = 64 / 4
	for i := 0; i < len(x); i += line {
		sum += x[i]
	}
	return sum
}

// pixelTiles computes so many rows of outputs of some images. The last vector of a plane overlaps with the one before it.
func (c *pass) pixelTiles(t *nestTile, images, rows int, x, y []float32) {
	const bytes = 4
	pixels, lanes := c.in.pixels(), c.pixelLanes()
	t.ldc = bytes * pixels
	t.setLoops(loop{1, 0, 0}, loop{1, 0, 0}, loop{c.channels, rows, pixels})
	run := func(image, at, tiles, from, to int) {
		t.b, t.c, t.bNext, t.cNext = &x[image*c.in.between+at], &y[image*c.out.between+at], bytes*from, bytes*to
		t.runTiles(lanes, rows, tiles)
	}
	whole := pixels / lanes
	if whole < images {
		for v := range whole {
			run(0, v*lanes, images, c.in.between, c.out.between)
		}
	} else {
		for image := range images {
			run(image, 0, whole, lanes, lanes)
		}
	}
	if pixels%lanes > 0 {
		run(0, pixels-lanes, images, c.in.between, c.out.between)
	}
}
