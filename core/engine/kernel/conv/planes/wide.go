package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// wide is a depthwise convolution with stride 1 by square filters for CPUs that compute vectors of sixteen lanes whole. A tile of up to
// eight rows of y is in registers while the filter's columns meet it, one after the other. Masks leave out what lies beside
// the plane, so that no element outside of a tensor is touched, and none is copied. Rows of up to eight columns are
// computed for two images at a time, one in each half of a vector. Several outputs of each channel are computed one after the other.
type wide struct {
	images, planes int // planes: channels
	outputs        int // of each
	toInput        bool
	size           int // of the filter
	h, w, oh, ow   int // of planes of x, and of y
	top, left      int // padding
	stepH, stepW   int // dilation
	passes         [3]widePass
	orders         *wideOrders
}

// widePass is the tiles that one kernel computes: of single images, of two at a time, or of the last of an odd number.
type widePass struct {
	pair   bool
	turned bool // the columns of a filter of 3×3 see one vector for each row of x, the first and the last its lanes in another order
	tiles  []wideTile
}

// The passes.
const (
	passSingle = iota
	passPair
	passLast
)

// wideBlock is some columns of y beside each other, and the lane of the first.
type wideBlock struct{ column, columns, lane int }

// wideTile is some rows of a block of columns. Those of x that the first of y sees through the filter begin at x, and the ones from first to
// end lie in the plane. A mask is that of lanes in the lower half and the same in the upper half, if these are two images: that of y, and those
// of what each column of the filter sees. The layout is known to gen/conv/wide.go, as is that below.
type wideTile struct {
	x, y             int // bytes
	rows, first, end int
	masks            [maxWideSize + 1][2]uint16
}

// widePlanes is a call: planes of some images, or pairs of them, whose second ones are xNext and yNext further. Steps are bytes.
type widePlanes struct {
	x, y                   *float32
	xNext, yNext           int
	planes, xPlane, yPlane int
	images, xImage, yImage int // of weight gradients
	xRow, yRow, xColumn    int // xColumn: to what the next column of the filter sees
	tiles                  int
	table                  *wideTile
	weights, bias          *float32
	biasNext               int
	sums                   *float32 // [planes][rows][columns][lanes]

	xAt, yAt, xPlaneAt, yPlaneAt, weightsAt, biasAt, sumsAt, imagesLeft, tilesLeft int // room for the kernel: addresses that it moves on are no pointers

	orders       *wideOrders
	ahead        int // bytes behind what is read and written that are prefetched
	add          int // not 0: sums are added to y
	weightStep   int // from a weight to the one right of it: -4 turns filters around
	weightRow    int // to the one below it
	weightsPlane int
}

// wideOrders is which lanes of a row the first column of a filter of 3×3 sees, and the last.
type wideOrders [2][kernel.Block]int32

const (
	maxWideSize  = 7
	wideTileRows = 8
	wideSmall    = 64   // pixels of a plane of which one tile has all
	nearest      = 2048 // bytes that kernels prefetch ahead, at least
	wideElems    = int(unsafe.Sizeof(wideTile{})) / 4
)

// takesWide reports whether these kernels compute a direction.
func takesWide(p *geometry.Shape, d geometry.Direction) bool {
	if !wholeDepthwise(p) || p.StrideH != 1 || p.StrideW != 1 || p.R != 3 && p.R != 5 && p.R != maxWideSize {
		return false
	}
	return p.PadH <= (p.R-1)*p.DilationH() && p.PadW <= (p.S-1)*p.DilationW() && !slidesFaster(p, d)
}

// wholeDepthwise reports whether a convolution is depthwise by square filters, and vectors of sixteen lanes are computed whole.
func wholeDepthwise(p *geometry.Shape) bool {
	return kernel.Wide() && !kernel.Halves() && p.Depthwise() && p.R == p.S
}

// slidesFaster reports whether slide.go's kernels take less time: they do for rows of some whole vectors, of planes that are not large.
func slidesFaster(p *geometry.Shape, d geometry.Direction) bool {
	const large = 48 * 48
	whole := p.W > kernel.Block && p.W%kernel.Block == 0 && p.OutW() == p.W && p.H*p.W <= large
	return d != geometry.ToWeight && whole && p.R == 3 && p.DilationH() == 1 && p.DilationW() == 1 && slides(p, d)
}

// wideOf is the convolution that a direction is.
func wideOf(p *geometry.Shape, d geometry.Direction) wide {
	s := wide{
		images: p.N, planes: p.C, outputs: p.K / p.C, toInput: d == geometry.ToInput, size: p.R, h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(),
		top: p.PadH, left: p.PadW, stepH: p.DilationH(), stepW: p.DilationW(),
	}
	if s.toInput {
		s.h, s.w, s.oh, s.ow = s.oh, s.ow, s.h, s.w
		s.top, s.left = (s.size-1)*s.stepH-s.top, (s.size-1)*s.stepW-s.left
	}
	return s
}

// same reports whether the middle column of a filter of 3×3 sees the column of x that y's is at.
func (s *wide) same() bool { return s.size == 3 && s.ow == s.w && s.left == s.stepW }

// pairs reports whether the last block of columns is computed for two images at a time.
func (s *wide) pairs() bool {
	if s.size == 3 {
		return s.same() && s.ow <= narrow
	}
	rest := s.ow % kernel.Block
	return rest > 0 && rest <= narrow
}

// block is the i-th of a pass. A vector that is turned has the columns beside the block, too, unless these lie beside the plane.
func (s *wide) block(turned bool, i int) wideBlock {
	b := wideBlock{column: i * kernel.Block, columns: min(kernel.Block, s.ow-i*kernel.Block)}
	if turned && s.ow > kernel.Block {
		inner := kernel.Block - 2*s.stepW
		b.column, b.columns, b.lane = i*inner+s.stepW, inner, s.stepW
		if i == 0 {
			b.column, b.columns, b.lane = 0, inner+s.stepW, 0
		}
		if rest := s.ow - b.column; rest <= b.columns+s.stepW {
			b.columns = rest
		}
	}
	return b
}

// blocks is how many blocks of columns a pass computes, and the first.
func (s *wide) blocks(i int) (count, first int) {
	all, pairs := kernel.CeilDiv(s.ow, kernel.Block), s.pairs()
	switch {
	case !pairs && i == passSingle:
		return all, 0
	case i == passSingle:
		return all - 1, 0
	case !pairs || i == passPair && s.images < 2 || i == passLast && s.images%2 == 0:
		return 0, 0
	}
	return 1, all - 1
}

// turns reports whether single images have as few blocks as any if their vectors are turned.
func (s *wide) turns() bool {
	if !s.same() || 2*s.stepW >= kernel.Block {
		return false
	}
	last := s.block(true, kernel.CeilDiv(s.ow, kernel.Block)-1)
	return last.column+last.columns == s.ow
}

// weights is how many there are.
func (s *wide) weights() int { return s.planes * s.outputs * s.size * s.size }

// rowTiles is how many tiles the rows take, every stepH of which are in the same ones.
func (s *wide) rowTiles() (n int) {
	rowTiles(s.oh, s.stepH, wideTileRows, func(_, _ int) { n++ })
	return n
}

// scratch is the elements that a direction needs.
func (s *wide) scratch(d geometry.Direction) (n int) {
	if d == geometry.ToWeight {
		n += s.weights() + s.sumChannels()*s.outputs*s.size*s.size*kernel.Block
	}
	s.images = 3 // which have all passes: it is to be enough for fewer images as well
	for pass := range s.passes {
		blocks, _ := s.blocks(pass)
		n += blocks * s.rowTiles() * wideElems
	}
	return n + len(wideOrders{})*kernel.Block + 2*kernel.Block
}

// prepare lists the tiles in scratch.
func (s *wide) prepare(scratch []float32) (rest []float32) {
	rest = geometry.Aligned(scratch)
	s.orders = (*wideOrders)(unsafe.Pointer(&rest[0]))
	rest = rest[len(s.orders)*kernel.Block:]
	for lane := range kernel.Block {
		s.orders[0][lane], s.orders[1][lane] = int32(lane-s.stepW), int32(lane+s.stepW)
	}
	for i := range s.passes {
		blocks, first := s.blocks(i)
		n := blocks * s.rowTiles()
		if n == 0 {
			continue
		}
		pass := &s.passes[i]
		pass.pair, pass.turned = i == passPair, i == passPair && s.size == 3 || s.turns()
		pass.tiles = unsafe.Slice((*wideTile)(unsafe.Pointer(&rest[0])), n)[:0]
		rest = rest[n*wideElems:]
		s.list(pass, blocks, first)
	}
	return rest
}

// list lists the tiles of a pass from the top to the bottom.
func (s *wide) list(pass *widePass, blocks, first int) {
	rowTiles(s.oh, s.stepH, wideTileRows, func(row, rows int) {
		for block := range blocks {
			pass.tiles = append(pass.tiles, s.tile(pass, row, rows, s.block(pass.turned, first+block)))
		}
	})
}

// rowTiles divides rows, every step of which are in the same tiles, into tiles of at most so many, and calls f with the first row of each and how many it has.
func rowTiles(rows, step, most int, f func(row, rows int)) {
	for e := range min(step, rows) {
		left := kernel.CeilDiv(rows-e, step)
		for tiles, row := kernel.CeilDiv(left, most), e; left > 0; tiles-- {
			height := kernel.CeilDiv(left, tiles)
			f(row, height)
			left, row = left-height, row+height*step
		}
	}
}

// insideRows are the rows from first to end of those that a tile sees, every step from a row on, that lie in a plane of h rows.
func insideRows(above, rows, step, h int) (first, end int) {
	if inside := h - above; inside > 0 {
		end = min(rows, kernel.CeilDiv(inside, step))
	}
	return kernel.CeilDiv(max(0, -above), step), end
}

// tile is that of some rows, every stepH from one on, and of a block of columns.
func (s *wide) tile(pass *widePass, row, rows int, b wideBlock) (t wideTile) {
	above, before := row-s.top, b.column-b.lane // what the first row sees of x, and the column of lane 0
	t.rows = rows
	t.first, t.end = insideRows(above, rows+s.size-1, s.stepH, s.h)
	t.x, t.y = 4*(above*s.w+before), 4*(row*s.ow+before)
	if !pass.turned {
		t.x -= 4 * s.left
	}
	for lane := b.lane; lane < b.lane+b.columns; lane++ {
		t.masks[0][0] |= 1 << lane
		for tap := range s.size {
			if seen := before + lane - s.left + tap*s.stepW; seen >= 0 && seen < s.w {
				t.masks[tap+1][0] |= 1 << lane
			}
		}
	}
	if pass.turned { // the middle column's mask is that of what is read
		for lane := range min(kernel.Block, s.w-before) {
			t.masks[2][0] |= 1 << lane
		}
	}
	if pass.pair {
		t.bothHalves(pass.turned)
	}
	return t
}

// bothHalves makes the upper half of masks that of the lower one. The columns of the filter see both in one vector if it is turned.
func (t *wideTile) bothHalves(turned bool) {
	for i := range t.masks {
		m := &t.masks[i]
		if m[1] = m[0] << narrow; turned && (i == 1 || i == 3) {
			m[0] |= m[1]
		}
	}
}

// overPasses calls f for each pass over the images from n on, at most so many, and with how many images, or pairs of them.
func (s *wide) overPasses(n, most int, f func(pass, first, count int)) {
	images := min(most, s.images-n)
	for pass := range s.passes {
		first, count := n, images
		switch pass {
		case passPair:
			count /= 2
		case passLast:
			first, count = n+images-1, images%2
		}
		if len(s.passes[pass].tiles) > 0 && count > 0 {
			f(pass, first, count)
		}
	}
}

// call is that of a pass for images from n on, and for one output of the channels from a first one on.
func (s *wide) call(pass, n, images, output, channel int, x, y []float32) widePlanes {
	tiles, plane, result := s.passes[pass].tiles, s.h*s.w, s.oh*s.ow
	xApart, yApart, xFirst, yFirst := 1, s.outputs, 0, output // planes of a channel, and which one it is
	if s.toInput {
		xApart, yApart, xFirst, yFirst = yApart, xApart, yFirst, xFirst
	}
	t := widePlanes{
		x: &x[((n*s.planes+channel)*xApart+xFirst)*plane], y: &y[((n*s.planes+channel)*yApart+yFirst)*result],
		xNext: 4 * s.planes * xApart * plane, yNext: 4 * s.planes * yApart * result,
		planes: s.planes - channel, xPlane: 4 * xApart * plane, yPlane: 4 * yApart * result, images: images, xRow: 4 * s.stepH * s.w, yRow: 4 * s.stepH * s.ow, xColumn: 4 * s.stepW,
		tiles: len(tiles), table: &tiles[0], orders: s.orders,
	}
	t.xImage, t.yImage = t.xNext, t.yNext
	if pass == passPair {
		t.xImage, t.yImage = 2*t.xNext, 2*t.yNext
	}
	return t
}

// wideTerms counts what a direction does. See package cost.
func wideTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := wideOf(p, d)
	for i, count := range [...]int{passSingle: s.images, passPair: s.images / 2, passLast: 1} {
		blocks, _ := s.blocks(i)
		planes := float64(count * s.planes * s.outputs * blocks)
		t[wideProducts] += planes * float64(s.oh*s.size*s.size)
		t[wideTiles] += planes * float64(s.rowTiles())
	}
	if d == geometry.ToWeight && s.outputs > 1 {
		t[wideTiles] *= 2 // sums of each column are loaded and stored, and x is read for each output
	}
	return t
}

// convolve computes y from x, w and a bias, or the gradient of x from that of y with filters turned around.
func (s *wide) convolve(x, w, bias, y []float32) {
	const pair = 2
	atOnce := channelsAtOnce(s.planes, s.outputs, s.h*s.w)
	for n := 0; n < s.images; n += pair {
		s.overPasses(n, pair, func(pass, first, count int) {
			for i := range count {
				for channel := 0; channel < s.planes; channel += atOnce {
					s.convolveSome(pass, first+i, channel, atOnce, x, w, bias, y)
				}
			}
		})
	}
}

// convolveSome computes all outputs of up to count channels of an image, or of two.
func (s *wide) convolveSome(pass, n, channel, count int, x, w, bias, y []float32) {
	taps := s.size * s.size
	for output := range s.outputs {
		t := s.call(pass, n, 1, output, channel, x, y)
		filter := channel*s.outputs + output
		t.planes, t.ahead = min(t.planes, count), min(max(2*4*s.h*s.w, nearest), 4*nearest)
		t.weights, t.weightStep, t.weightsPlane, t.bias = &w[filter*taps], 4, 4*s.outputs*taps, &geometry.NoBias[0]
		if s.toInput {
			t.weights, t.weightStep, t.add = &w[filter*taps+taps-1], -4, output
		}
		t.weightRow = s.size * t.weightStep
		if bias != nil {
			t.bias, t.biasNext = &bias[filter], 4*s.outputs
		}
		s.runForward(pass, &t)
	}
}

// runForward runs the kernel of a pass.
func (s *wide) runForward(i int, t *widePlanes) {
	switch pass := &s.passes[i]; {
	case s.size == 3 && pass.pair:
		vecWideForward3Pair(t)
	case s.size == 3 && pass.turned:
		vecWideForward3Turned(t)
	case s.size == 3:
		vecWideForward3(t)
	case s.size == 5 && pass.pair:
		vecWideForward5Pair(t)
	case s.size == 5:
		vecWideForward5(t)
	case pass.pair:
		vecWideForward7Pair(t)
	default:
		vecWideForward7(t)
	}
}

// runDots runs the kernel of a pass.
func (s *wide) runDots(i int, t *widePlanes) {
	switch pass := &s.passes[i]; {
	case s.size == 3 && pass.pair:
		vecWideDots3Pair(t)
	case s.size == 3 && pass.turned:
		vecWideDots3Turned(t)
	case s.size == 3:
		vecWideDots3(t)
	case s.size == 5 && pass.pair:
		vecWideDots5Pair(t)
	case s.size == 5:
		vecWideDots5(t)
	case pass.pair:
		vecWideDots7Pair(t)
	default:
		vecWideDots7(t)
	}
}

// sumChannels is how many channels are summed at a time: all, if the L2 cache does not hold their planes, and these are not small.
func (s *wide) sumChannels() int {
	elems := s.images * s.planes * (s.h*s.w + s.outputs*s.oh*s.ow)
	if elems > cost.CachedElems && s.h*s.w > wideSmall {
		return s.planes
	}
	return channelsSummed(s.planes, s.outputs*s.size*s.size, elems)
}

// gradWeight is GradWeight.
func (s *wide) gradWeight(x, dy, dw, scratch []float32, accumulate bool) bool {
	n, atOnce, taps := s.weights(), s.sumChannels(), s.size*s.size
	totals, lanes := scratch[:n], geometry.Aligned(scratch[n:])[:atOnce*s.outputs*taps*kernel.Block]
	for channel := 0; channel < s.planes; channel += atOnce {
		channels := min(atOnce, s.planes-channel)
		s.sum(channel, channels, x, dy, lanes[:channels*s.outputs*taps*kernel.Block])
		laneTotals(channels, s.outputs, taps, lanes, totals[channel*s.outputs*taps:])
	}
	return writeSums(totals, dw, accumulate)
}

// sum puts the sums of some channels from a first one on into lanes, [outputs][channels][taps][lanes].
func (s *wide) sum(channel, channels int, x, dy, lanes []float32) {
	clear(lanes)
	atOnce := 2 // images: planes of more compete for the L1 cache
	if s.h*s.w <= wideSmall {
		atOnce = 4
	}
	for n := 0; n < s.images; n += atOnce {
		s.overPasses(n, atOnce, func(pass, first, count int) {
			for output := range s.outputs {
				t := s.call(pass, first, count, output, channel, x, dy)
				t.planes, t.sums = channels, &lanes[output*len(lanes)/s.outputs]
				t.ahead = min(max(4*s.h*s.w, nearest), 2*nearest)
				s.runDots(pass, &t)
			}
		})
	}
}

// wideForward is Forward, wideGradInput GradInput, and wideGradWeight GradWeight.
func wideForward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s := wideOf(p, geometry.ToOutput)
	s.prepare(scratch)
	s.convolve(x, w, bias, y)
}

func wideGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s := wideOf(p, geometry.ToInput)
	s.prepare(scratch)
	s.convolve(dy, w, nil, dx)
}

func wideGradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) bool {
	s := wideOf(p, geometry.ToWeight)
	return s.gradWeight(x, dy, dw, s.prepare(scratch), accumulate)
}
