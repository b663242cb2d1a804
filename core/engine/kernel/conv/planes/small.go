package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// small is a depthwise convolution of planes of up to sixteen pixels, for CPUs that compute vectors of as many lanes whole: a plane
// is a vector, and what a tap sees of it a permutation, whatever the stride, the dilation and the padding are. Taps
// that see nothing are left out. Planes of up to eight rows of eight pixels that have results of a vector with stride 2 are four vectors, two of even rows
// and two of odd ones: a tap sees pixels of either.
type small struct {
	p       geometry.Shape // a copy, so that the caller's stays on its stack
	in, out int            // pixels
	table   []smallTap
	even    int // taps that see even rows, of planes in rows; behind them are those that see odd ones
	images  int // of a call, at most
}

// smallTap is which pixel each of the other plane sees through a tap, as a mask of those that see one, and where its weight is. The
// layout is known to gen/conv/small.go, as is that below.
type smallTap struct {
	order [kernel.Block]int32
	mask  uint32
	at    int32 // bytes
	_     [14]int32
}

// smallPlanes is a call, for planes of 1, 2, 4 or smallImages images. Steps are bytes.
type smallPlanes struct {
	x, y                   *float32
	xImage, yImage         int
	planes, xPlane, yPlane int
	taps                   int
	table                  unsafe.Pointer // *smallTap, or *spreadTap
	weights                *float32       // [planes][weightsPlane]
	weightsPlane           int
	bias                   *float32
	biasPlane              int
	sums                   *float32 // [planes][taps][lanes]
	maskX, maskY           uint16
	xRow                   int // the rest is for planes of rows, of which every other one is seen
	oddTaps                int // that see odd rows, behind those that see even ones
	rowMasks               [2 * smallRows]uint16
	vectors                int // and this for planes of some vectors, whose weights rowMasks has the masks of; see spreadGrad
	parts                  [spreadVectors]spreadPart
}

const (
	smallImages   = 8
	smallRows     = 4 // even ones, and as many odd ones
	smallTapElems = int(unsafe.Sizeof(smallTap{})) / 4
)

// takesSmall reports whether a direction is computed so.
func takesSmall(p *geometry.Shape, d geometry.Direction) bool {
	if !kernel.Wide() || kernel.Halves() || !p.Depthwise() || p.K != p.C {
		return false
	}
	if takesSpread(p, d) {
		return true
	}
	if takesSmallRows(p) {
		return d != geometry.ToInput && smallTaps(p) > 0
	}
	if max(p.H*p.W, p.OutH()*p.OutW()) > kernel.Block {
		return false
	}
	const few = 9 // taps, of which permutations take less time than two images at a time do
	taps := smallTaps(p)
	return taps > 0 && (taps <= few || d == geometry.ToWeight || !takesWideStrided(p, d))
}

// takesSmallRows reports whether planes of x are some vectors, of rows of which results see every other one.
func takesSmallRows(p *geometry.Shape) bool {
	const most = 25 // taps, of which permutations of two vectors take less time than rows of two images do
	return p.StrideH == 2 && p.H*p.W > kernel.Block && max(p.H, p.W) <= narrow && p.OutH()*p.OutW() <= kernel.Block && p.R*p.S <= most
}

// smallScratch is the elements that a direction needs.
func smallScratch(p *geometry.Shape, d geometry.Direction) int {
	if takesSpread(p, d) {
		return spreadScratch(p)
	}
	n := p.R*p.S*smallTapElems + 2*kernel.Block
	if d == geometry.ToWeight {
		n += p.K * p.R * p.S * (kernel.Block + 2)
	}
	return n
}

// smallTerms counts what a direction does. See package cost.
func smallTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	if takesSpread(p, d) {
		return spreadTerms(p)
	}
	images, each := smallImages, 2 // a permutation takes as long as a product, and one of two vectors as long as two
	if takesSmallRows(p) {
		images, each = images/2, 3
	}
	t[wideTiles] = float64(kernel.CeilDiv(p.N, images) * p.C)
	t[wideProducts] = float64(each * p.N * p.C * smallTaps(p))
	return t
}

// smallTaps is how many taps see something.
func smallTaps(p *geometry.Shape) int {
	along := func(in, out, stride, pad, taps, dil int) (n int) {
		for tap := range taps {
			for i := range out {
				if at := i*stride - pad + tap*dil; at >= 0 && at < in {
					n++
					break
				}
			}
		}
		return n
	}
	return along(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH()) * along(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
}

// newSmall lists the taps in scratch: what pixels of y see of x, or, if those of dx are computed, what these see of dy.
func newSmall(p *geometry.Shape, toInput bool, scratch []float32) (s small, rest []float32) {
	s = small{p: *p, in: p.H * p.W, out: p.OutH() * p.OutW(), images: smallImages}
	rest = geometry.Aligned(scratch)
	s.table = unsafe.Slice((*smallTap)(unsafe.Pointer(&rest[0])), p.R*p.S)[:0]
	rest = rest[p.R*p.S*smallTapElems:]
	if takesSmallRows(p) {
		s.images = smallImages / 2
		s.list(func(row, column int) int { return place(row, column, 0) }, false)
		s.even = len(s.table)
		s.list(func(row, column int) int { return place(row, column, 1) }, false)
		return s, rest
	}
	s.list(func(row, column int) int { return row*p.W + column }, toInput)
	return s, rest
}

// place is where a pixel lies in the vectors of rows of a parity, or -1.
func place(row, column, parity int) int {
	if row%2 != parity {
		return -1
	}
	return row/2*narrow + column
}

// list appends the taps through which pixels of y see some of x, whose place at gives, unless it is -1; or the way back.
func (s *small) list(at func(row, column int) int, back bool) {
	for tap := range s.p.R * s.p.S {
		t := smallTap{at: int32(4 * tap)}
		eachSeen(&s.p, tap, func(lane, row, column int) {
			from := at(row, column)
			if from < 0 {
				return
			}
			if back {
				lane, from = from, lane
			}
			t.order[lane] = int32(from)
			t.mask |= 1 << lane
		})
		if t.mask != 0 {
			s.table = append(s.table, t)
		}
	}
}

// eachSeen calls f for each pixel of y that sees one of x through a tap, in the order of memory, and where that is. It adds and does
// not divide: the table of a convolution of few images takes as long as these do.
func eachSeen(p *geometry.Shape, tap int, f func(to, row, column int)) {
	height, width := p.OutH(), p.OutW()
	top, left := tap/p.S*p.DilationH()-p.PadH, tap%p.S*p.DilationW()-p.PadW
	for i, row := 0, top; i < height; i, row = i+1, row+p.StrideH {
		if row < 0 || row >= p.H {
			continue
		}
		for j, column := 0, left; j < width; j, column = j+1, column+p.StrideW {
			if column >= 0 && column < p.W {
				f(i*width+j, row, column)
			}
		}
	}
}

// call is that for images from n on, whose planes have in pixels of x and out pixels of y.
func (s *small) call(n, in, out int, x, y []float32) smallPlanes {
	p := &s.p
	t := smallPlanes{
		x: &x[n*p.C*in], y: &y[n*p.C*out], xImage: 4 * p.C * in, yImage: 4 * p.C * out, planes: p.C, xPlane: 4 * in, yPlane: 4 * out,
		taps: len(s.table), table: unsafe.Pointer(&s.table[0]), weightsPlane: 4 * p.R * p.S, maskY: uint16(1<<out - 1),
	}
	if s.images == smallImages {
		t.maskX = uint16(1<<in - 1)
		return t
	}
	t.taps, t.oddTaps, t.xRow = s.even, len(s.table)-s.even, 4*p.W
	for row := range p.H { // the upper half of a vector is every second even row, or odd one
		t.rowMasks[row] = uint16(1<<p.W-1) << (row / 2 % 2 * narrow)
	}
	return t
}

// convolve computes y from planes of in pixels.
func (s *small) convolve(in, out int, x, w, bias, y []float32) {
	var zero float32
	s.overImages(func(n, images int) {
		t := s.call(n, in, out, x, y)
		t.weights, t.bias = &w[0], &zero
		if bias != nil {
			t.bias, t.biasPlane = &bias[0], 4
		}
		s.runForward(images, &t)
	})
}

// overImages calls f for all images, as many at a time as a kernel takes.
func (s *small) overImages(f func(n, images int)) {
	for n, images := 0, s.images; n < s.p.N; n += images {
		for n+images > s.p.N {
			images /= 2
		}
		f(n, images)
	}
}

func (s *small) runForward(images int, t *smallPlanes) {
	switch rows := s.images < smallImages; {
	case images == 1 && rows:
		vecSmallStridedForward1(t)
	case images == 1:
		vecSmallForward1(t)
	case images == 2 && rows:
		vecSmallStridedForward2(t)
	case images == 2:
		vecSmallForward2(t)
	case images == 4 && rows:
		vecSmallStridedForward4(t)
	case images == 4:
		vecSmallForward4(t)
	default:
		vecSmallForward8(t)
	}
}

func (s *small) runDots(images int, t *smallPlanes) {
	switch rows := s.images < smallImages; {
	case images == 1 && rows:
		vecSmallStridedDots1(t)
	case images == 1:
		vecSmallDots1(t)
	case images == 2 && rows:
		vecSmallStridedDots2(t)
	case images == 2:
		vecSmallDots2(t)
	case images == 4 && rows:
		vecSmallStridedDots4(t)
	case images == 4:
		vecSmallDots4(t)
	default:
		vecSmallDots8(t)
	}
}

// smallForward is Forward, and smallGradInput GradInput.
func smallForward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s, _ := newSmall(p, false, scratch)
	s.convolve(s.in, s.out, x, w, bias, y)
}

func smallGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	if takesSpread(p, geometry.ToInput) {
		spreadGradInput(p, dy, w, dx, scratch)
		return
	}
	s, _ := newSmall(p, true, scratch)
	s.convolve(s.out, s.in, dy, w, nil, dx)
}

// smallSums adds the gradient of the weights to sums, which are zero.
func smallSums(p *geometry.Shape, x, dy, sums, scratch []float32) {
	s, rest := newSmall(p, false, scratch)
	n := p.C * len(s.table)
	lanes, totals := rest[:n*kernel.Block], rest[n*kernel.Block:][:n]
	clear(lanes)
	s.overImages(func(n, images int) {
		t := s.call(n, s.in, s.out, x, dy)
		t.sums = &lanes[0]
		s.runDots(images, &t)
	})
	geometry.LaneSums(kernel.Block, lanes, totals)
	for c := range p.C {
		to := sums[c*p.R*p.S:][:p.R*p.S]
		for i, v := range totals[c*len(s.table):][:len(s.table)] {
			to[s.table[i].at/4] = v
		}
	}
}
