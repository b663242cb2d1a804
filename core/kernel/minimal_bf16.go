package kernel

// Minimal filtering (see minimal.go) of bfloat16 images with tiles of 11×11
// pixels: a 5×5 filter over 7×7 outputs costs 2.5 products per output, where tiles
// of 8×8 need 4 and a direct sum 25. Transforms and products are float32; what
// they lose, at most 3e-4 of the outputs' root mean square, is a tenth of what
// rounding to bfloat16 does to the largest outputs, where it would be a hundred
// times the error of a float32 layer.
//
// Points are laid out as there: [121][channels/16][tiles][16].

const (
	largePoints       = 11
	largeSquare       = largePoints * largePoints
	largeGroupElems   = 1 << 17 // of the points of a group of images
	largeFilterElems  = 1 << 18 // of the filters' points
	largeTaps         = 5
	largeSide         = largePoints + 1 - largeTaps
	largeFilterSquare = largeTaps * largeTaps
)

// large reports whether this way works, and takes fewer products than minimal.
func (p *Conv) large() bool {
	return HasBF16() && !minimalOff && p.groups() == 1 && p.StrideH == 1 && p.StrideW == 1 &&
		p.dilH() == 1 && p.dilW() == 1 && p.R == largeTaps && p.S == largeTaps && p.PadH < p.R && p.PadW < p.R &&
		p.C%channelLanes == 0 && p.K%channelLanes == 0 && p.C*p.K*largeSquare <= largeFilterElems &&
		p.largePays(p.OutH(), p.OutW()) && p.largePays(p.H, p.W)
}

func (p *Conv) largePays(oh, ow int) bool {
	return largeSquare*ceilDiv(oh, largeSide)*ceilDiv(ow, largeSide) <= p.minimalProducts(oh, ow)
}

// largeCall is a convolution of from channels of h×w to to channels of oh×ow.
type largeCall struct {
	from, to       int // channels
	h, w, oh, ow   int
	padH, padW     int
	across, down   int // tiles per image
	width          int // vectors in a row of the frame
	outWidth       int // vectors in a row of output lanes
	images         int // per group
	stride         int // vectors between points
	frame, lanes   []float32
	data, products []float32
	filters        []float32
	tmp            []float32
}

func newLarge(p *Conv, gradInput bool) largeCall {
	c := largeCall{from: p.C, to: p.K, h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(), padH: p.PadH, padW: p.PadW}
	if gradInput {
		c.from, c.to, c.h, c.w, c.oh, c.ow = p.K, p.C, c.oh, c.ow, p.H, p.W
		c.padH, c.padW = p.R-1-p.PadH, p.S-1-p.PadW
	}
	c.across, c.down = ceilDiv(c.ow, largeSide), ceilDiv(c.oh, largeSide)
	c.width = max(c.across*largeSide+largeTaps-1, c.padW+ceilDiv(c.w, channelLanes)*channelLanes)
	c.outWidth = max(c.across*largeSide, ceilDiv(c.ow, channelLanes)*channelLanes)
	c.images = c.groupImages(p.N)
	c.stride = ceilDiv(c.images*c.across*c.down, pointTileRows)*pointTileRows | 1 // odd: points fall into different sets
	return c
}

// groupImages is how many images fit: as many as fill whole micro-kernels, if possible.
func (c *largeCall) groupImages(n int) int {
	perImage := c.across * c.down
	most := max(1, min(n, largeGroupElems/(largeSquare*(c.from+c.to)*perImage)))
	for i := most; i > most/2; i-- {
		if i*perImage%pointTileRows == 0 {
			return i
		}
	}
	return most
}

func (c *largeCall) frameElems() int {
	return max(c.down*largeSide+largeTaps-1, c.padH+c.h) * c.width * channelLanes
}

func (c *largeCall) lanesElems() int {
	return max(c.down*largeSide*c.outWidth, 2*channelLanes) * channelLanes
}

// pointElems is the room for the points of n blocks of channels.
func (c *largeCall) pointElems(blocks int) int { return largeSquare * blocks * c.stride * channelLanes }

func (c *largeCall) scratch() int {
	return largeSquare*channelLanes + c.frameElems() + c.lanesElems() + c.pointElems((c.from+c.to)/channelLanes) + largeSquare*c.from*c.to
}

// largeScratch is the number of scratch elements of all three convolutions.
func largeScratch(p *Conv) int {
	if !p.large() {
		return 0
	}
	f, g := newLarge(p, false), newLarge(p, true)
	return max(f.scratch(), g.scratch())
}

// reserve cuts the call's buffers from scratch. The frame starts as zeros.
func (c *largeCall) reserve(scratch []float32) {
	cut := func(n int) []float32 {
		part := scratch[:n]
		scratch = scratch[n:]
		return part
	}
	c.tmp = cut(largeSquare * channelLanes)
	c.frame, c.lanes = cut(c.frameElems()), cut(c.lanesElems())
	c.data, c.products = cut(c.pointElems(c.from/channelLanes)), cut(c.pointElems(c.to/channelLanes))
	c.filters = cut(largeSquare * c.from * c.to)
	clear(c.frame)
}

// point is where the points of a block of channels start, from tile t on.
func (c *largeCall) point(buf []float32, block, t int) []float32 {
	return buf[(block*c.stride+t)*channelLanes:]
}

// pointBytes is the distance between the points of a buffer of that many blocks.
func (c *largeCall) pointBytes(blocks int) int { return 4 * blocks * c.stride * channelLanes }

func largeForward(p *Conv, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	c := newLarge(p, false)
	c.reserve(scratch)
	c.setFilters(w, p.C*largeFilterSquare, largeFilterSquare, false)
	c.run(p.N, x, bias, y)
}

func largeGradInput(p *Conv, dy, w, dx []uint16, scratch []float32) {
	c := newLarge(p, true)
	c.reserve(scratch)
	c.setFilters(w, largeFilterSquare, p.C*largeFilterSquare, true)
	c.run(p.N, dy, nil, dx)
}

// setFilters evaluates every filter at the points: [121][to/16][from][16]. The
// filter between two channels is at to·toStep + from·fromStep; turned reads its
// taps backwards.
func (c *largeCall) setFilters(w []uint16, toStep, fromStep int, turned bool) {
	t := transform{
		inRow: 4 * largeTaps * channelLanes, inCol: 4 * channelLanes, tmp: &c.tmp[0],
		outRow: 4 * largePoints * c.from * c.to, outCol: 4 * c.from * c.to,
	}
	first := &c.lanes[0]
	if turned {
		first = &c.lanes[(largeFilterSquare-1)*channelLanes]
		t.inRow, t.inCol = -t.inRow, -t.inCol
	}
	for block := range c.to / channelLanes {
		for from := range c.from {
			halfToLanes(w[block*channelLanes*toStep+from*fromStep:], 2*toStep, 1, largeFilterSquare, c.lanes, 0)
			t.count, t.in, t.out = 1, first, &c.filters[(block*c.from+from)*channelLanes]
			filterTo11(largeTaps, &t)
		}
	}
}

// halfToLanes copies 16 planes of h×w of bfloat16 to vectors of 16 channels, in
// rows of width vectors. Columns beyond w, up to a multiple of 16, become zero.
func halfToLanes(x []uint16, plane, h, w int, dst []float32, width int) {
	for col := 0; col < w; col += channelLanes {
		halfPlanesToLanes(h, &x[col], plane, 2*w, lanesOf(min(channelLanes, w-col)), &dst[col*channelLanes], 4*width*channelLanes)
	}
}

// lanesToHalf is the way back, with an addend per channel.
func lanesToHalf(src []float32, width, h, w int, bias []float32, y []uint16) {
	for col := 0; col < w; col += channelLanes {
		lanesToHalfPlanes(h, &src[col*channelLanes], 4*width*channelLanes, &bias[0], &y[col], 2*h*w, 2*w, lanesOf(min(channelLanes, w-col)))
	}
}

// run convolves n images, group by group.
func (c *largeCall) run(n int, x []uint16, bias []float32, y []uint16) {
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
func (c *largeCall) readImage(x []uint16, i int) {
	blocks := c.from / channelLanes
	t := transform{
		inRow: 4 * c.width * channelLanes, inCol: 4 * channelLanes, inStep: 4 * largeSide * channelLanes,
		outRow: largePoints * c.pointBytes(blocks), outCol: c.pointBytes(blocks), outStep: 4 * channelLanes, tmp: &c.tmp[0],
	}
	for block := range blocks {
		halfToLanes(x[block*channelLanes*c.h*c.w:], 2*c.h*c.w, c.h, c.w, c.frame[(c.padH*c.width+c.padW)*channelLanes:], c.width)
		for row := range c.down {
			t.count, t.in = c.across, &c.frame[row*largeSide*c.width*channelLanes]
			t.out = &c.point(c.data, block, (i*c.down+row)*c.across)[0]
			dataTo11(&t)
		}
	}
}

// multiply computes the products of count images at every point.
func (c *largeCall) multiply(count int) {
	blocksIn, blocksOut := c.from/channelLanes, c.to/channelLanes
	rows := ceilDiv(count*c.across*c.down, pointTileRows)
	t := pointTile{
		blocks: blocksIn, steps: channelLanes, jump: 4*c.stride*channelLanes - 4*channelLanes,
		aStep: 4 * pointTileRows * channelLanes, cStep: 4 * pointTileRows * channelLanes,
	}
	for point := range largeSquare {
		data := c.data[point*blocksIn*c.stride*channelLanes:]
		products := c.products[point*blocksOut*c.stride*channelLanes:]
		filters := c.filters[point*c.from*c.to:][:c.from*c.to]
		for block := 0; block < blocksOut; block += 2 {
			t.count, t.a = rows, &data[0]
			t.b0, t.c0 = &filters[block*c.from*channelLanes], &c.point(products, block, 0)[0]
			if block+1 == blocksOut {
				pointRows(1, &t)
				continue
			}
			t.b1, t.c1 = &filters[(block+1)*c.from*channelLanes], &c.point(products, block+1, 0)[0]
			pointRows(2, &t)
		}
	}
}

// writeImage interpolates a block of channels of image i, and adds the bias.
func (c *largeCall) writeImage(y []uint16, block, i int, bias []float32) {
	blocks := c.to / channelLanes
	t := transform{
		inRow: largePoints * c.pointBytes(blocks), inCol: c.pointBytes(blocks), inStep: 4 * channelLanes,
		outRow: 4 * c.outWidth * channelLanes, outCol: 4 * channelLanes, outStep: 4 * largeSide * channelLanes, tmp: &c.tmp[0],
	}
	for row := range c.down {
		t.count, t.in = c.across, &c.point(c.products, block, (i*c.down+row)*c.across)[0]
		t.out = &c.lanes[row*largeSide*c.outWidth*channelLanes]
		from11To(largeSide, &t)
	}
	lanesToHalf(c.lanes, c.outWidth, c.oh, c.ow, bias, y)
}
