package kernel

import "os"

// Minimal filtering of float32 images with stride 1 (Winograd, "Arithmetic
// Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016): a tile of 8×8 pixels and a filter of
// R×R taps are each evaluated at 8×8 points, multiplied there, and interpolated
// to (9−R)×(9−R) outputs. A 5×5 filter then costs 4 products per output instead
// of 25, a 3×3 filter 1.8 instead of 9. The gradient for the weights is the same
// with a tile of dy as the filter.
//
// With the points 0, ±1, ±2, ±1/2 and ∞ the result is about five times as far
// from the exact one as a direct float32 sum: 2e-6 of the outputs' size. What is
// not finite spreads over its tile, and an infinity may become NaN; nothing that
// ought to be infinite or NaN becomes finite.
//
// A vector holds 16 channels. Points lie as [64][channels/16][tiles][16], tiles
// of a group of images padded to whole micro-kernels.

const (
	minimalPoints = 8
	squarePoints  = minimalPoints * minimalPoints
	channelLanes  = 16
	pointTileRows = 8
)

// EnvConv names the environment variable that chooses between algorithms of
// convolution: "direct" leaves minimal filtering out.
const EnvConv = "TRAINCTL_CONV"

var minimalOff = os.Getenv(EnvConv) == "direct"

// Bounds in elements: of the points of a group of images, which have to stay in
// the L2 cache together with a slice of the filters, and of the filters' points.
const (
	minimalGroupElems  = 1 << 17
	minimalFilterElems = 1 << 19
)

// transform is a call of a kernel that turns count squares of vectors into
// squares of another size. Rows, columns and steps are in bytes; tmp has room
// for 64 vectors. The kernel counts in its fields. The layout is known to gen/minimal.go.
type transform struct {
	count                   int
	in                      *float32
	inRow, inCol, inStep    int
	out                     *float32
	outRow, outCol, outStep int
	tmp                     *float32
}

// pointTile is a call of the micro-kernel between transforms: 8 rows of one or
// two vectors. The sum runs over blocks times steps; behind each block the
// address in A jumps. The layout is known to gen/minimal.go.
type pointTile struct {
	blocks, steps, jump int
	a, b0, b1, c0, c1   *float32
	add                 int
}

// minimal reports whether this way works, and pays, at the active level.
func (p *Conv) minimal() bool {
	return level() == AVX512 && !minimalOff && p.groups() == 1 && p.StrideH == 1 && p.StrideW == 1 &&
		p.dilH() == 1 && p.dilW() == 1 && p.R == p.S && (p.R == 3 || p.R == 5) && p.PadH < p.R && p.PadW < p.R &&
		p.C%channelLanes == 0 && p.K%channelLanes == 0 && p.C*p.K*squarePoints <= minimalFilterElems &&
		p.pays(p.OutH(), p.OutW()) && p.pays(p.H, p.W)
}

// pays reports whether tiles of an image of oh×ow save at least half of the products.
func (p *Conv) pays(oh, ow int) bool {
	m := minimalPoints + 1 - p.R
	return 2*squarePoints*ceilDiv(oh, m)*ceilDiv(ow, m) <= p.R*p.R*oh*ow
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// minimalCall is a convolution of from channels of h×w to to channels of oh×ow.
type minimalCall struct {
	taps, side     int // of a filter; of a tile of outputs
	from, to       int // channels
	h, w, oh, ow   int
	padH, padW     int
	across, down   int // tiles per image
	width          int // vectors in a row of the frame
	outWidth       int // vectors in a row of output lanes
	images         int // per group
	tiles          int // of a group, in whole micro-kernels
	stride         int // vectors between points
	frame, lanes   []float32
	data, products []float32
	filters        []float32
	tmp            []float32
}

func newMinimal(p *Conv, gradInput bool) minimalCall {
	c := minimalCall{taps: p.R, side: minimalPoints + 1 - p.R, from: p.C, to: p.K, h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(), padH: p.PadH, padW: p.PadW}
	if gradInput {
		c.from, c.to, c.h, c.w, c.oh, c.ow = p.K, p.C, c.oh, c.ow, p.H, p.W
		c.padH, c.padW = p.R-1-p.PadH, p.R-1-p.PadW
	}
	c.across, c.down = ceilDiv(c.ow, c.side), ceilDiv(c.oh, c.side)
	c.width = max(c.across*c.side+c.taps-1, c.padW+ceilDiv(c.w, 16)*16)
	c.outWidth = max(c.across*c.side, ceilDiv(c.ow, 16)*16)
	perTile := squarePoints * (c.from + c.to)
	c.images = max(1, min(p.N, minimalGroupElems/(perTile*c.across*c.down)))
	c.tiles = ceilDiv(c.images*c.across*c.down, pointTileRows) * pointTileRows
	c.stride = c.tiles | 1 // an odd number of cache lines: consecutive points fall into different sets
	return c
}

// frameRows and outRows are the heights of the padded image and of whole tiles of outputs.
func (c *minimalCall) frameRows() int { return max(c.down*c.side+c.taps-1, c.padH+c.h) }
func (c *minimalCall) outRows() int   { return c.down * c.side }

func (c *minimalCall) frameElems() int { return c.frameRows() * c.width * channelLanes }
func (c *minimalCall) lanesElems() int {
	return max(c.outRows()*c.outWidth, c.taps*c.taps) * channelLanes
}

// pointElems is the room for the points of n blocks of channels.
func (c *minimalCall) pointElems(blocks int) int {
	return squarePoints * blocks * c.stride * channelLanes
}

func (c *minimalCall) scratch() int {
	return c.frameElems() + c.lanesElems() + c.pointElems((c.from+c.to)/channelLanes) + squarePoints*c.from*c.to + squarePoints*channelLanes
}

// minimalScratch is the number of scratch elements of all three convolutions.
func minimalScratch(p *Conv) int {
	if !p.minimal() {
		return 0
	}
	f, g := newMinimal(p, false), newMinimal(p, true)
	return max(f.scratch(), g.scratch())
}

// reserve cuts the call's buffers from scratch. The frame starts as zeros.
func (c *minimalCall) reserve(scratch []float32) {
	cut := func(n int) []float32 {
		part := scratch[:n]
		scratch = scratch[n:]
		return part
	}
	c.tmp = cut(squarePoints * channelLanes)
	c.frame, c.lanes = cut(c.frameElems()), cut(c.lanesElems())
	c.data, c.products = cut(c.pointElems(c.from/channelLanes)), cut(c.pointElems(c.to/channelLanes))
	c.filters = cut(squarePoints * c.from * c.to)
	clear(c.frame)
}

// point is where the points of a block of channels start, from tile t on.
func (c *minimalCall) point(buf []float32, block, t int) []float32 {
	return buf[(block*c.stride+t)*channelLanes:]
}

// pointBytes is the distance between the points of a buffer of that many blocks.
func (c *minimalCall) pointBytes(blocks int) int { return 4 * blocks * c.stride * channelLanes }

func minimalForward(p *Conv, x, w, bias, y, scratch []float32) {
	c := newMinimal(p, false)
	c.reserve(scratch)
	c.setFilters(func(to, from int) []float32 { return w[(to*p.C+from)*p.R*p.S:][:p.R*p.S] }, false)
	c.run(p.N, x, bias, y)
}

func minimalGradInput(p *Conv, dy, w, dx, scratch []float32) {
	c := newMinimal(p, true)
	c.reserve(scratch)
	c.setFilters(func(to, from int) []float32 { return w[(from*p.C+to)*p.R*p.S:][:p.R*p.S] }, true)
	c.run(p.N, dy, nil, dx)
}

// setFilters evaluates every filter at the points: [64][to/16][from][16]. turned
// reads the taps backwards.
func (c *minimalCall) setFilters(filter func(to, from int) []float32, turned bool) {
	n := c.taps * c.taps
	t := transform{
		inRow: 4 * c.taps * channelLanes, inCol: 4 * channelLanes, tmp: &c.tmp[0],
		outRow: 4 * minimalPoints * c.from * c.to, outCol: 4 * c.from * c.to,
	}
	for block := range c.to / channelLanes {
		for from := range c.from {
			for lane := range channelLanes {
				taps := filter(block*channelLanes+lane, from)
				if turned {
					for i, v := range taps {
						c.lanes[(n-1-i)*channelLanes+lane] = v
					}
					continue
				}
				for i, v := range taps {
					c.lanes[i*channelLanes+lane] = v
				}
			}
			t.count, t.in, t.out = 1, &c.lanes[0], &c.filters[(block*c.from+from)*channelLanes]
			filterToPoints(c.taps, &t)
		}
	}
}

// run convolves n images, group by group.
func (c *minimalCall) run(n int, x, bias, y []float32) {
	var zeros [channelLanes]float32
	for first := 0; first < n; first += c.images {
		count := min(c.images, n-first)
		for i := range count {
			c.readImage(x[(first+i)*c.from*c.h*c.w:], i)
		}
		c.multiply(count)
		for i := range count {
			out := y[(first+i)*c.to*c.oh*c.ow:]
			for block := range c.to / channelLanes {
				add := zeros[:]
				if bias != nil {
					add = bias[block*channelLanes:][:channelLanes]
				}
				c.writeImage(out[block*channelLanes*c.oh*c.ow:], block, i, add)
			}
		}
	}
}

// readImage evaluates image i of a group at the points.
func (c *minimalCall) readImage(x []float32, i int) {
	t := transform{
		inRow: 4 * c.width * channelLanes, inCol: 4 * channelLanes, inStep: 4 * c.side * channelLanes,
		outRow: minimalPoints * c.pointBytes(c.from/channelLanes), outCol: c.pointBytes(c.from / channelLanes), outStep: 4 * channelLanes,
		tmp: &c.tmp[0],
	}
	for block := range c.from / channelLanes {
		toLanes(x[block*channelLanes*c.h*c.w:], c.h, c.w, c.frame[(c.padH*c.width+c.padW)*channelLanes:], c.width)
		for row := range c.down {
			t.count, t.in = c.across, &c.frame[row*c.side*c.width*channelLanes]
			t.out = &c.point(c.data, block, (i*c.down+row)*c.across)[0]
			dataToPoints(&t)
		}
	}
}

// multiply computes the products of count images at every point.
func (c *minimalCall) multiply(count int) {
	blocksIn, blocksOut := c.from/channelLanes, c.to/channelLanes
	rows := ceilDiv(count*c.across*c.down, pointTileRows) * pointTileRows
	t := pointTile{blocks: blocksIn, steps: channelLanes, jump: 4*c.stride*channelLanes - 4*channelLanes}
	for point := range squarePoints {
		data := c.data[point*blocksIn*c.stride*channelLanes:]
		products := c.products[point*blocksOut*c.stride*channelLanes:]
		filters := c.filters[point*c.from*c.to:][:c.from*c.to]
		for block := 0; block < blocksOut; block += 2 {
			pair := block+1 < blocksOut
			for row := 0; row < rows; row += pointTileRows {
				t.a, t.b0, t.c0 = &data[row*channelLanes], &filters[block*c.from*channelLanes], &c.point(products, block, row)[0]
				if !pair {
					pointRows(1, &t)
					continue
				}
				t.b1, t.c1 = &filters[(block+1)*c.from*channelLanes], &c.point(products, block+1, row)[0]
				pointRows(2, &t)
			}
		}
	}
}

// writeImage interpolates a block of channels of image i, and adds the bias.
func (c *minimalCall) writeImage(y []float32, block, i int, bias []float32) {
	blocks := c.to / channelLanes
	t := transform{
		inRow: minimalPoints * c.pointBytes(blocks), inCol: c.pointBytes(blocks), inStep: 4 * channelLanes,
		outRow: 4 * c.outWidth * channelLanes, outCol: 4 * channelLanes, outStep: 4 * c.side * channelLanes,
		tmp: &c.tmp[0],
	}
	for row := range c.down {
		t.count, t.in = c.across, &c.point(c.products, block, (i*c.down+row)*c.across)[0]
		t.out = &c.lanes[row*c.side*c.outWidth*channelLanes]
		pointsTo(c.side, &t)
	}
	toPlanes(c.lanes, c.outWidth, c.oh, c.ow, bias, y)
}

// toLanes copies 16 planes of h×w to vectors of 16 channels, in rows of width
// vectors. Columns beyond w, up to a multiple of 16, become zero.
func toLanes(x []float32, h, w int, dst []float32, width int) {
	for col := 0; col < w; col += channelLanes {
		planesToLanes(h, &x[col], 4*h*w, 4*w, lanesOf(min(channelLanes, w-col)), &dst[col*channelLanes], 4*width*channelLanes)
	}
}

// toPlanes is the way back, with an addend per channel.
func toPlanes(src []float32, width, h, w int, bias, y []float32) {
	for col := 0; col < w; col += channelLanes {
		lanesToPlanes(h, &src[col*channelLanes], 4*width*channelLanes, &bias[0], &y[col], 4*h*w, 4*w, lanesOf(min(channelLanes, w-col)))
	}
}
