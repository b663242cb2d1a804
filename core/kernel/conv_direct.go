package kernel

import (
	"math"
	"unsafe"
)

// The float32 convolution with stride 1: the micro-kernels read the taps straight
// from an image that was copied into a zero frame, through a table of offsets.
// No column matrix exists. The gradient for the input is the same convolution
// with the filters turned around, over dy in a frame of its own.

// direct reports whether this way works at the active level.
func (p *Conv) direct() bool {
	return level() != Generic && p.StrideH == 1 && p.StrideW == 1 &&
		max(p.inputFrame().elems(), p.gradFrame().elems()) < math.MaxInt32/4 &&
		p.PadH <= p.dilH()*(p.R-1) && p.PadW <= p.dilW()*(p.S-1)
}

// frame is a group of channels with zeros around each plane, and room for a
// vector to read past the end.
type frame struct {
	channels, h, w int // of what is inside
	first          int // place of the first element inside
	width, plane   int // with the border
}

func newFrame(channels, h, w, padH, padW int) frame {
	width := w + 2*padW
	return frame{channels: channels, h: h, w: w, first: padH*width + padW, width: width, plane: (h + 2*padH) * width}
}

func (f frame) elems() int { return f.channels*f.plane + vectorBlock }

// fill copies an image's planes into a frame whose border is zero already.
func (f frame) fill(src, dst []float32) {
	for c := range f.channels {
		for i := range f.h {
			copy(dst[f.first+c*f.plane+i*f.width:][:f.w], src[(c*f.h+i)*f.w:])
		}
	}
}

// inputFrame holds x of one group, gradFrame dy.
func (p *Conv) inputFrame() frame { return newFrame(p.C/p.groups(), p.H, p.W, p.PadH, p.PadW) }
func (p *Conv) gradFrame() frame {
	return newFrame(p.K/p.groups(), p.OutH(), p.OutW(), p.dilH()*(p.R-1)-p.PadH, p.dilW()*(p.S-1)-p.PadW)
}

func directScratch(p *Conv) int {
	if !p.direct() {
		return 0
	}
	weights, taps := p.K/p.groups()*p.patch(), max(p.C, p.K)/p.groups()*p.R*p.S
	forward := max(p.inputFrame().elems(), p.gradFrame().elems()) + weights + taps
	return max(forward, p.patch()+p.gradBatch()*(p.inputFrame().elems()+p.stepElems()))
}

// directCall is one convolution of every image of a group: out planes of oh×ow
// from a frame.
type directCall struct {
	shape
	frame
	out, oh, ow int
	taps        []int32   // byte offset of each product's x from the pixel's own place
	weights     []float32 // packed panels, see packTaps
	bias        []float32
}

func directForward(p *Conv, x, w, bias, y, scratch []float32) {
	g, kg, oh, ow := p.groups(), p.K/p.groups(), p.OutH(), p.OutW()
	c := directCall{shape: shapes[level()], frame: p.inputFrame(), out: kg, oh: oh, ow: ow}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, r*p.dilH(), s*p.dilW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.patch():], p.patch(), p.R*p.S, rest)
		if bias != nil {
			c.bias = bias[i*kg:][:kg]
		}
		for n := range p.N {
			c.fill(x[(n*p.C+i*c.channels)*p.H*p.W:], image)
			c.run(image, y[(n*p.K+i*kg)*oh*ow:][:kg*oh*ow])
		}
	}
}

func directGradInput(p *Conv, dy, w, dx, scratch []float32) {
	g, cg, kg, oh, ow := p.groups(), p.C/p.groups(), p.K/p.groups(), p.OutH(), p.OutW()
	c := directCall{shape: shapes[level()], frame: p.gradFrame(), out: cg, oh: p.H, ow: p.W}
	image, rest := c.reserve(p, scratch)
	for r := range p.R {
		for s := range p.S {
			c.setTap(p, r*p.S+s, (p.R-1-r)*p.dilH(), (p.S-1-s)*p.dilW())
		}
	}
	for i := range g {
		packTaps(&c, p.R*p.S, w[i*kg*p.patch():], p.R*p.S, p.patch(), rest)
		for n := range p.N {
			c.fill(dy[(n*p.K+i*kg)*oh*ow:], image)
			c.run(image, dx[(n*p.C+i*cg)*p.H*p.W:][:cg*p.H*p.W])
		}
	}
}

// reserve cuts the frame and the table of taps from scratch; the rest is for the weights.
func (c *directCall) reserve(p *Conv, scratch []float32) (image, rest []float32) {
	image, rest = scratch[:c.elems()], scratch[c.elems():]
	clear(image)
	taps := c.channels * p.R * p.S
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&rest[0])), taps)
	return image, rest[taps:]
}

// setTap says for every channel that the filter's element rs looks h rows down and w columns right.
func (c *directCall) setTap(p *Conv, rs, h, w int) {
	for ch := range c.channels {
		c.taps[ch*p.R*p.S+rs] = int32(4 * (ch*c.plane + h*c.width + w))
	}
}

// packTaps packs the weights as Gemm packs A, block of taps by block of taps:
// element (out, in, rs) is at out·outStride + in·inStride + rs.
func packTaps(c *directCall, rs int, w []float32, outStride, inStride int, dst []float32) {
	height, taps := evenRows(c.out, c.rows), len(c.taps)
	c.weights = dst[:c.out*taps]
	for l := 0; l < taps; l += blockK {
		k := min(blockK, taps-l)
		for i := range c.out {
			first := i / height * height
			rows := min(height, c.out-first)
			panel := c.weights[l*c.out+first*k:][i-first:]
			for t := range k {
				panel[t*rows] = w[i*outStride+(l+t)/rs*inStride+(l+t)%rs]
			}
		}
	}
}

// run convolves one framed image.
func (c *directCall) run(image, y []float32) {
	for l := 0; l < len(c.taps); l += blockK {
		k := min(blockK, len(c.taps)-l)
		t := tile{k: k, off: &c.taps[l], ldc: 4 * c.oh * c.ow}
		if l > 0 {
			t.add = 1
		}
		c.runTaps(&t, c.weights[l*c.out:][:k*c.out], image, y)
	}
}

// runTaps walks over the output in pairs of vectors; a vector never crosses a row's end.
func (c *directCall) runTaps(t *tile, weights, image, y []float32) {
	perRow := (c.ow + c.lanes - 1) / c.lanes
	for v := 0; v < perRow*c.oh; v += 2 {
		from, to, n := c.vector(v, perRow)
		t.b0, t.c0, t.n0 = &image[from], &y[to], lanesOf(n)
		t.b1, t.c1, t.n1 = t.b0, t.c0, lanesOf(0)
		at1 := to
		if v+1 < perRow*c.oh {
			from, at1, n = c.vector(v+1, perRow)
			t.b1, t.c1, t.n1 = &image[from], &y[at1], lanesOf(n)
		}
		c.column(t, weights, y, to, at1)
	}
}

// vector is the place of a vector of output pixels: in the frame, in y, and how many.
func (c *directCall) vector(v, perRow int) (from, to, n int) {
	row, col := v/perRow, v%perRow*c.lanes
	return row*c.width + col, row*c.ow + col, min(c.lanes, c.ow-col)
}

// column computes the pair of vectors for every output channel.
func (c *directCall) column(t *tile, weights, y []float32, to0, to1 int) {
	height, plane := evenRows(c.out, c.rows), c.oh*c.ow
	for i := 0; i < c.out; i += height {
		t.a = &weights[i*t.k]
		t.c0, t.c1 = &y[i*plane+to0], &y[i*plane+to1]
		t.bias = nil
		if c.bias != nil && t.add == 0 {
			t.bias = &c.bias[i]
		}
		runTile(min(height, c.out-i), t)
	}
}

// stepElems is the room that the steps of one image take in a scratch of float32.
func (p *Conv) stepElems() int {
	const perStep = int(unsafe.Sizeof(dotStep{}) / 4)
	return p.OutH() * ((p.OutW() + 7) / 8) * perStep
}

// gradBatchElems bounds the framed images that a weight gradient works on at once, so that they stay in L2.
const gradBatchElems = 1 << 15

// gradBatch is how many images the weight gradient keeps framed at a time.
func (p *Conv) gradBatch() int {
	return min(p.N, max(1, gradBatchElems/p.inputFrame().elems()))
}

// dotCall is the weight gradient of one group over a batch of framed images.
type dotCall struct {
	shape
	p       *Conv
	images  []float32
	taps    []int32 // place of each tap's first element in the frame
	steps   []dotStep
	filters int
	dw      []float32
	add     bool
	sums    *[maxDotRows * maxDotCols]float32
}

func directGradWeight(p *Conv, x, dy, dw, scratch []float32, accumulate bool) {
	f, kg, batch := p.inputFrame(), p.K/p.groups(), p.gradBatch()
	var sums [maxDotRows * maxDotCols]float32
	c := dotCall{shape: shapes[level()], p: p, filters: kg, sums: &sums}
	room := c.setTaps(f, scratch)
	c.images, room = room[:batch*f.elems()], room[batch*f.elems():]
	clear(c.images)
	for i := range p.groups() {
		c.dw = dw[i*kg*p.patch():][:kg*p.patch()]
		for n := 0; n < p.N; n += batch {
			count := min(batch, p.N-n)
			for b := range count {
				f.fill(x[((n+b)*p.C+i*f.channels)*p.H*p.W:], c.images[b*f.elems():])
			}
			c.setSteps(f, count, room)
			c.add = accumulate || n > 0
			c.run(dy[(n*p.K+i*kg)*p.OutH()*p.OutW():])
		}
	}
}

// setTaps takes the table of taps from scratch, and gives back the rest.
func (c *dotCall) setTaps(f frame, scratch []float32) []float32 {
	c.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), c.p.patch())
	for i := range c.taps {
		rs := c.p.R * c.p.S
		ch, r, s := i/rs, i%rs/c.p.S, i%c.p.S
		c.taps[i] = int32(ch*f.plane + r*c.p.dilH()*f.width + s*c.p.dilW())
	}
	return scratch[len(c.taps):]
}

// setSteps lists the vectors of output pixels of count images.
func (c *dotCall) setSteps(f frame, count int, room []float32) {
	oh, ow := c.p.OutH(), c.p.OutW()
	perRow := (ow + c.lanes - 1) / c.lanes
	c.steps = unsafe.Slice((*dotStep)(unsafe.Pointer(&room[0])), count*oh*perRow)
	for s := range c.steps {
		b, v := s/(oh*perRow), s%(oh*perRow)
		row, col := v/perRow, v%perRow*c.lanes
		c.steps[s] = dotStep{
			dy:    int32(4 * (b*c.p.K*oh*ow + row*ow + col)),
			x:     int32(4 * (b*f.elems() + row*f.width + col)),
			lanes: lanesOf(min(c.lanes, ow-col)),
		}
	}
}

// run computes dw tile by tile. The last tiles of either direction overlap those
// before them, and leave what is done already.
func (c *dotCall) run(dy []float32) {
	plane, taps := c.p.OutH()*c.p.OutW(), c.p.patch()
	t := dotTile{count: len(c.steps), steps: &c.steps[0], stride: 4 * plane, out: &c.sums[0]}
	height := c.dotRows
	if c.filters < height {
		height, t.stride = 1, 0
	}
	for k := 0; k < c.filters; k += height {
		first := min(k, c.filters-height)
		t.dy = &dy[first*plane]
		for tap := 0; tap < taps; tap += c.dotCols {
			for j := range c.dotCols {
				t.x[j] = &c.images[c.taps[min(tap+j, taps-1)]]
			}
			runDotTile(&t)
			c.store(first, k, min(k+height, c.filters), tap)
		}
	}
}

// store puts the sums of filters [from, to) into dw; the tile starts at filter first.
func (c *dotCall) store(first, from, to, tap int) {
	taps := c.p.patch()
	for k := from; k < to; k++ {
		sums := c.sums[(k-first)*c.dotCols:][:min(c.dotCols, taps-tap)]
		row := c.dw[k*taps+tap:][:len(sums)]
		for j, v := range sums {
			if c.add {
				v += row[j]
			}
			row[j] = v
		}
	}
}
