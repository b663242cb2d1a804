package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// wideStrided is a depthwise convolution with stride 2 or 3, of input gradients with stride 3 those of 3×3 filters, for CPUs that compute vectors of sixteen lanes whole. A row of x is in two vectors,
// of which one permutation takes what a column of the filter sees of it. Planes of up to sixteen columns are computed for two images at
// a time, whose rows are the two vectors.
type wideStrided struct {
	p         geometry.Shape
	direction geometry.Direction
	pair      bool
	second    int // elements from a row's first vector to its second, of one image
	columns   []wideColumns
	last      []wideColumns // of weight gradients for the last of an odd number of images
}

// wideColumns is a block of columns: up to sixteen of y, or of two images up to eight each, and what they see of x, which begins at x. Of input
// gradients it is as many pairs of columns of dx, which are written. The layout is known to gen/conv/wide_strided.go, as is that below.
type wideColumns struct {
	x, y   int // bytes
	maskX  [2]uint16
	maskY  [2]uint16
	views  [maxWideSize][2]uint16
	_      [12]byte
	orders [wideStridedOrders][kernel.Block]int32
}

// wideStrides is a call: planes of some images, or pairs of them, whose second ones are yNext further, as the second vector of x is by xNext. Rows
// of x at offsets below 0, and of xEnd and more, are left out. Steps are bytes.
type wideStrides struct {
	x, y                   *float32
	xNext, yNext           int
	planes, xPlane, yPlane int
	images, xImage, yImage int // of weight gradients
	xRow, yRow, xFirst     int // xFirst: the offset of the first step's first row
	xEnd, yEnd, steps      int
	blocks                 int
	table                  *wideColumns
	weights, bias          *float32
	biasNext               int
	sums                   *float32 // [planes][rows][columns][lanes]

	xAt, yAt, xPlaneAt, yPlaneAt, weightsAt, biasAt, sumsAt, imagesLeft, blocksLeft int // room for the kernel, as above

	ahead int // bytes behind what is read that are prefetched
}

// wideStridedOrders is the most that a block has: one for each column of the filter.
const wideStridedOrders = maxWideSize

const wideColumnElems = int(unsafe.Sizeof(wideColumns{})) / 4

// takesWideStrided reports whether these kernels compute a direction.
func takesWideStrided(p *geometry.Shape, d geometry.Direction) bool {
	if !wholeDepthwise(p) || p.K != p.C && d == geometry.ToInput || p.StrideH != p.StrideW || p.StrideH != 2 && p.StrideH != 3 || p.DilationH() != 1 || p.DilationW() != 1 || p.PadH >= p.R || p.PadW >= p.R {
		return false
	}
	if p.R != 3 && p.R != 5 && p.R != maxWideSize || p.W < kernel.Block && p.OutW() > narrow {
		return false
	}
	if d == geometry.ToInput && p.StrideH == 3 && p.R != 3 {
		return false
	}
	s := wideStrided{p: *p, direction: d, pair: pairsStrided(p, d)}
	return d == geometry.ToInput || p.R > 3 || p.StrideW > 2 || s.blocks() == kernel.CeilDiv(p.OutW(), kernel.Block) // else strided.go's kernels take less time
}

// pairsStrided reports whether two images are computed at a time.
func pairsStrided(p *geometry.Shape, d geometry.Direction) bool {
	apart := d == geometry.ToInput && p.StrideW == p.S // a row of dy is three vectors of dx
	return p.W <= kernel.Block && p.OutW() <= narrow && !apart
}

// newWideStrided lists the blocks of columns in scratch.
func newWideStrided(p *geometry.Shape, d geometry.Direction, scratch []float32) (s wideStrided, rest []float32) {
	s = wideStrided{p: *p, direction: d, pair: pairsStrided(p, d), second: min(kernel.Block, p.W-kernel.Block)}
	rest = geometry.Aligned(scratch)
	take := func() []wideColumns {
		n := s.blocks()
		list := unsafe.Slice((*wideColumns)(unsafe.Pointer(&rest[0])), n)[:0]
		rest = rest[n*wideColumnElems:]
		return s.list(list)
	}
	s.columns = take()
	if s.last = s.columns; s.pair && d == geometry.ToWeight && p.N%2 > 0 {
		s.last = take()
		s.last[0].maskY[1] = 0
	}
	return s, rest
}

// blocks is how many blocks of columns there are.
func (s *wideStrided) blocks() (n int) {
	if s.direction == geometry.ToInput {
		return kernel.CeilDiv(s.p.W+s.apartPad(), s.p.StrideW*kernel.Block)
	}
	for at := 0; at < s.p.OutW(); n++ {
		_, columns := s.span(at)
		at += columns
	}
	return n
}

// wideStridedScratch is the elements that a direction needs.
func wideStridedScratch(p *geometry.Shape, d geometry.Direction) int {
	s := wideStrided{p: *p, direction: d, pair: pairsStrided(p, d)}
	n := 2*s.blocks()*wideColumnElems + 3*kernel.Block
	switch {
	case d == geometry.ToWeight:
		n += p.K * p.R * p.S * (kernel.Block + 1)
	case p.K != p.C:
		n += p.K * (p.R*p.S + 1)
	}
	return n
}

// wideStridedTerms counts what a direction does. See package cost.
func wideStridedTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := wideStrided{p: *p, direction: d, pair: pairsStrided(p, d)}
	images, steps := p.N, p.OutH()+s.before()
	if s.pair {
		images = kernel.CeilDiv(images, 2)
	}
	if d == geometry.ToInput {
		steps = kernel.CeilDiv(p.H+p.PadH, p.StrideH)
	}
	t[wideTiles] = float64(images * p.K * s.blocks())
	t[wideSteps] = t[wideTiles] * float64(steps)
	t[wideProducts] = t[wideSteps] * float64(p.R*p.S)
	if d == geometry.ToWeight && p.R == maxWideSize {
		t[wideSteps] *= 3 // see runParts
	}
	if rows := steps * p.StrideH; d == geometry.ToOutput && p.H < rows { // others are left out
		t[wideProducts] *= float64(p.H) / float64(rows)
	}
	return t
}

// before is how many steps come before the one that completes the first row of y.
func (s *wideStrided) before() int { return kernel.CeilDiv(s.p.R, s.p.StrideH) - 1 }

// list appends the blocks to columns.
func (s *wideStrided) list(columns []wideColumns) []wideColumns {
	if s.direction == geometry.ToInput {
		for i := range s.blocks() {
			if s.p.StrideW > 2 {
				columns = append(columns, s.apartFrom(i*kernel.Block))
			} else {
				columns = append(columns, s.pairsFrom(i*kernel.Block))
			}
		}
		return columns
	}
	for at := 0; at < s.p.OutW(); {
		from, n := s.span(at)
		columns = append(columns, s.columnsFrom(from, at, n))
		at += n
	}
	return columns
}

// span is how many columns of y from one on are a block, and the first column of x in its vectors.
func (s *wideStrided) span(at int) (from, n int) {
	const both = 2 * kernel.Block
	p := &s.p
	if from = min(p.StrideW*at-p.PadW, p.W-both); from < 0 {
		from = 0
	}
	n = min(s.lanes(), p.OutW()-at)
	if from+both < p.W { // else all that is left lies in the vectors
		n = min(n, (from+both-p.S+p.PadW)/p.StrideW-at+1)
	}
	return from, n
}

// columnsFrom is a block of y's columns from one on.
func (s *wideStrided) columnsFrom(from, at, n int) (c wideColumns) {
	p := &s.p
	c.x, c.y = 4*from, 4*at
	for lane := range n {
		for tap := range p.S {
			if seen := p.StrideW*(at+lane) - p.PadW + tap; seen >= 0 && seen < p.W {
				s.see(&c, tap, lane, seen-from)
			}
		}
	}
	c.maskY, c.maskX = bothHalves(n), bothHalves(p.W)
	return c
}

// lanes is how many columns of an image a vector has.
func (s *wideStrided) lanes() int {
	if s.pair {
		return narrow
	}
	return kernel.Block
}

// bothHalves is the mask of the first n lanes, and of the upper half's first ones.
func bothHalves(n int) [2]uint16 {
	mask := uint16(1)<<n - 1
	return [2]uint16{mask, mask << narrow}
}

// see makes a tap of a column see an element of x, in both images if there are two.
func (s *wideStrided) see(c *wideColumns, tap, lane, at int) {
	order := &c.orders[tap]
	c.views[tap][0] |= 1 << lane
	switch {
	case s.pair:
		order[lane], order[lane+narrow] = int32(at), int32(at+kernel.Block)
		c.views[tap][0] |= 1 << (lane + narrow)
	case at < kernel.Block:
		order[lane] = int32(at)
	default:
		order[lane] = int32(at - s.second + kernel.Block)
	}
}

// pairsFrom is the block of pairs of dx's columns from one on.
func (s *wideStrided) pairsFrom(at int) (c wideColumns) {
	p := &s.p
	first := at + p.PadW/2 + p.PadW%2 // of dy, that the first pair sees furthest to the right
	c.x, c.y = 4*2*at, 4*first
	for i := range (p.S + 1) / 2 {
		for lane := range s.lanes() {
			if seen := first - i + lane; seen >= 0 && seen < p.OutW() {
				c.views[i][0] |= 1 << lane
				c.views[i][1] |= 1 << (lane%narrow + narrow)
			}
		}
	}
	for lane := range kernel.Block {
		c.orders[0][lane] = int32(lane/2 + lane%2*kernel.Block)
		c.orders[1][lane] = c.orders[0][lane] + narrow
		if 2*at+lane < p.W {
			c.maskX[0] |= 1 << lane
		}
		if 2*at+kernel.Block+lane < p.W {
			c.maskX[1] |= 1 << lane
		}
	}
	if s.pair {
		c.maskX[1] = c.maskX[0]
	}
	return c
}

// apartPad is how many columns before dx the first of dy meets, of filters that do not overlap.
func (s *wideStrided) apartPad() int {
	if s.p.StrideW > 2 {
		return s.p.PadW
	}
	return 0
}

// apartFrom is the block of dy's columns from one on, which filters that do not overlap take to three vectors of dx.
func (s *wideStrided) apartFrom(at int) (c wideColumns) {
	p := &s.p
	from := at*p.StrideW - p.PadW
	c.x, c.y = 4*from, 4*at
	c.maskY[0] = bothHalves(max(0, min(kernel.Block, p.OutW()-at)))[0]
	for v := range p.S {
		for lane := range kernel.Block {
			place := v*kernel.Block + lane
			c.orders[v][lane], c.orders[p.S+v][lane] = int32(place/p.S), int32(place%p.S)
			if seen := from + place; seen >= 0 && seen < p.W {
				c.views[v][0] |= 1 << lane
			}
		}
	}
	c.views[p.S][0] = bothHalves(p.S)[0] // a row of the filter
	return c
}

// call is that for images from n on, of which a pair is one.
func (s *wideStrided) call(n, images, output int, x, y []float32) wideStrides {
	p, plane, result := &s.p, s.p.H*s.p.W, s.p.OutH()*s.p.OutW()
	t := wideStrides{
		x: &x[n*p.C*plane], y: &y[(n*p.K+output)*result], planes: p.C, xPlane: 4 * plane, yPlane: 4 * p.K / p.C * result, images: images, xImage: 4 * p.C * plane, yImage: 4 * p.K * result,
		xRow: 4 * p.W, yRow: 4 * p.OutW(), xEnd: 4 * plane, yEnd: 4 * result, blocks: len(s.columns), table: &s.columns[0], ahead: min(max(4*plane, nearest), 4*nearest),
	}
	if s.direction == geometry.ToInput {
		t.xFirst, t.steps = -p.PadH*t.xRow, kernel.CeilDiv(p.H+p.PadH, p.StrideH)
	} else {
		before := s.before()
		t.xFirst, t.steps = (p.R-(before+1)*p.StrideH-p.PadH)*t.xRow, p.OutH()+before
	}
	switch {
	case !s.pair && s.direction == geometry.ToInput:
		t.xNext = 4 * kernel.Block
	case !s.pair:
		t.xNext = 4 * s.second
	case n+1 < p.N:
		t.xNext, t.yNext = t.xImage, t.yImage
		t.xImage, t.yImage = 2*t.xImage, 2*t.yImage
	default: // the second image is the same one
		t.table = &s.last[0]
	}
	return t
}

// step is how many images a call of forward and of input gradients takes.
func (s *wideStrided) step() int {
	if s.pair {
		return 2
	}
	return 1
}

// wideStridedForward is Forward.
func wideStridedForward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s, rest := newWideStrided(p, geometry.ToOutput, scratch)
	outputs := p.K / p.C
	if outputs > 1 {
		w, rest = outputsFirst(p.C, outputs, w, rest)
		if bias != nil {
			bias, _ = outputsFirst(p.C, outputs, bias, rest)
		}
	}
	atOnce := channelsAtOnce(p.C, outputs, p.H*p.W)
	for n := 0; n < p.N; n += s.step() {
		for channel := 0; channel < p.C; channel += atOnce {
			for output := range outputs {
				t := s.call(n, 1, output, x, y)
				s.forwardSome(&t, output, channel, atOnce, w, bias)
			}
		}
	}
}

// forwardSome runs a call for an output of up to count channels.
func (s *wideStrided) forwardSome(t *wideStrides, output, channel, count int, w, bias []float32) {
	t.x, t.y, t.planes = advanced(t.x, channel*t.xPlane), advanced(t.y, channel*t.yPlane), min(count, s.p.C-channel)
	at := output*s.p.C + channel
	t.weights, t.bias = &w[at*s.p.R*s.p.S], &geometry.NoBias[0]
	if bias != nil {
		t.bias, t.biasNext = &bias[at], 4
	}
	s.runForward(t)
}

func (s *wideStrided) runForward(t *wideStrides) {
	switch s.kind() {
	case kindOf(2, 3, true):
		vecWideStridedForward3Pair(t)
	case kindOf(2, 3, false):
		vecWideStridedForward3(t)
	case kindOf(2, 5, true):
		vecWideStridedForward5Pair(t)
	case kindOf(2, 5, false):
		vecWideStridedForward5(t)
	case kindOf(2, 7, true):
		vecWideStridedForward7Pair(t)
	case kindOf(2, 7, false):
		vecWideStridedForward7(t)
	case kindOf(3, 3, true):
		vecWideStridedForward3By3Pair(t)
	case kindOf(3, 3, false):
		vecWideStridedForward3By3(t)
	case kindOf(3, 5, true):
		vecWideStridedForward5By3Pair(t)
	case kindOf(3, 5, false):
		vecWideStridedForward5By3(t)
	case kindOf(3, 7, true):
		vecWideStridedForward7By3Pair(t)
	case kindOf(3, 7, false):
		vecWideStridedForward7By3(t)
	}
}

// wideStridedGradInput is GradInput.
func wideStridedGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s, _ := newWideStrided(p, geometry.ToInput, scratch)
	for n := 0; n < p.N; n += s.step() {
		t := s.call(n, 1, 0, dx, dy)
		t.weights = &w[0]
		s.runGrad(&t)
	}
}

func (s *wideStrided) runGrad(t *wideStrides) {
	size3, size5, odd := s.p.S == 3, s.p.S == 5, s.p.PadW%2 > 0
	switch {
	case s.p.StrideW == 3:
		vecWideStridedGrad3By3(t)
	case size3 && odd && s.pair:
		vecWideStridedGrad3OddPair(t)
	case size3 && odd:
		vecWideStridedGrad3Odd(t)
	case size3 && s.pair:
		vecWideStridedGrad3EvenPair(t)
	case size3:
		vecWideStridedGrad3Even(t)
	case size5 && odd && s.pair:
		vecWideStridedGrad5OddPair(t)
	case size5 && odd:
		vecWideStridedGrad5Odd(t)
	case size5 && s.pair:
		vecWideStridedGrad5EvenPair(t)
	case size5:
		vecWideStridedGrad5Even(t)
	case odd && s.pair:
		vecWideStridedGrad7OddPair(t)
	case odd:
		vecWideStridedGrad7Odd(t)
	case s.pair:
		vecWideStridedGrad7EvenPair(t)
	default:
		vecWideStridedGrad7Even(t)
	}
}

// wideStridedSums adds the gradient of the weights to sums, which are zero.
func wideStridedSums(p *geometry.Shape, x, dy, sums, scratch []float32) {
	s, rest := newWideStrided(p, geometry.ToWeight, scratch)
	lanes, outputs := geometry.Aligned(rest)[:len(sums)*kernel.Block], p.K/p.C
	clear(lanes)
	for n := 0; n < p.N; {
		images := min(2*s.step(), p.N-n) // of more the planes compete for the L1 cache
		if s.pair && images > 1 {
			images -= images % 2
		}
		for output := range outputs {
			t := s.call(n, kernel.CeilDiv(images, s.step()), output, x, dy)
			t.sums = &lanes[output*len(lanes)/outputs]
			s.runDots(&t)
		}
		n += images
	}
	laneTotals(p.C, outputs, p.R*p.S, lanes, sums)
}

func (s *wideStrided) runDots(t *wideStrides) {
	switch s.kind() {
	case kindOf(2, 3, true):
		vecWideStridedDots3Pair(t)
	case kindOf(2, 3, false):
		vecWideStridedDots3(t)
	case kindOf(2, 5, true):
		vecWideStridedDots5Pair(t)
	case kindOf(2, 5, false):
		vecWideStridedDots5(t)
	case kindOf(3, 3, true):
		vecWideStridedDots3By3Pair(t)
	case kindOf(3, 3, false):
		vecWideStridedDots3By3(t)
	case kindOf(3, 5, true):
		vecWideStridedDots5By3Pair(t)
	case kindOf(3, 5, false):
		vecWideStridedDots5By3(t)
	default:
		s.runParts(t)
	}
}

// runParts runs the kernels of some columns of a filter of 7×7 each, over as many planes at a time as all of them find in the L1 cache.
func (s *wideStrided) runParts(t *wideStrides) {
	const parts, near = 3, 24 << 10 // near is bytes
	planes := max(1, near/(s.step()*t.images*(t.xPlane+t.yPlane)))
	call := *t // kernels count down what they are given
	for first := 0; first < t.planes; first += planes {
		for part := range parts {
			call.x, call.y, call.sums = advanced(t.x, first*t.xPlane), advanced(t.y, first*t.yPlane), advanced(t.sums, first*4*kernel.Block*s.p.R*s.p.S)
			call.planes = min(planes, t.planes-first)
			s.runPart(part, &call)
		}
	}
}

func (s *wideStrided) runPart(i int, t *wideStrides) {
	switch part := i + 3*(s.p.StrideW-2); {
	case part == 0 && s.pair:
		vecWideStridedDots7From0Pair(t)
	case part == 0:
		vecWideStridedDots7From0(t)
	case part == 1 && s.pair:
		vecWideStridedDots7From3Pair(t)
	case part == 1:
		vecWideStridedDots7From3(t)
	case part == 2 && s.pair:
		vecWideStridedDots7From5Pair(t)
	case part == 2:
		vecWideStridedDots7From5(t)
	case part == 3 && s.pair:
		vecWideStridedDots7By3From0Pair(t)
	case part == 3:
		vecWideStridedDots7By3From0(t)
	case part == 4 && s.pair:
		vecWideStridedDots7By3From3Pair(t)
	case part == 4:
		vecWideStridedDots7By3From3(t)
	case part == 5 && s.pair:
		vecWideStridedDots7By3From5Pair(t)
	case part == 5:
		vecWideStridedDots7By3From5(t)
	}
}

// kind tells the strides and filters apart that have kernels of their own, for one image and for two.
func (s *wideStrided) kind() int { return kindOf(s.p.StrideW, s.p.S, s.pair) }

func kindOf(stride, size int, pair bool) int {
	kind := 2 * (stride*(maxWideSize+1) + size)
	if pair {
		kind++
	}
	return kind
}

// advanced is p some bytes further.
func advanced(p *float32, bytes int) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(p), bytes))
}
