package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Depthwise convolution by 3×3 filters with stride 2, and the input gradients of square filters up to 7×7, look at planes where they are: a kernel
// takes the even and the odd elements of a row apart in registers, and computes whole planes in one call. What it reads
// beyond a row is masked, and what it writes beyond one is overwritten by the next row, so that only the first
// and the last plane of a tensor go through a copy with room around it, or a few if planes are smaller than what lies beyond a row.

// stridedPlanes is a call of these kernels: x is the planes that the filter sees, or their gradient, y its results, or theirs.
// Rows at offsets of xEnd or yEnd and more, or below 0, are read as zeros and written to lost. Steps and offsets are
// bytes. The layout is known to gen/conv/strided.go.
type stridedPlanes struct {
	planes         int
	x, y           *float32
	xPlane, yPlane int
	xRow, yRow     int
	xFirst, yFirst int // offsets of the first rows
	xEnd, yEnd     int // of a plane

	// Rows of y, or pairs of rows of x that are written: those in the body meet rows inside of the plane alone.
	head, body, tail int

	weights, bias *float32
	biasStep      int
	zeros, lost   *float32
	sums          *float32

	left, xAt, yAt, weightsAt, biasAt, sumsAt, bodyLeft int // room for the kernel

	room *stridedRoom
}

// stridedRoom is what the kernels read as vectors, none of which may lie in two cache lines: they read it often.
type stridedRoom struct {
	runs [4]columnRun
	taps [maxStridedTaps][narrow]float32 // room for the kernel
}

// columnRun is some blocks of columns beside each other: eight columns of y, which begin at y, and the sixteen of x
// from x on.
type columnRun struct {
	blocks, x, y, way int
	masks             [5][narrow]uint32
}

const (
	maxStridedSize   = 7
	maxStridedTaps   = maxStridedSize * maxStridedSize
	stridedRoomElems = int(unsafe.Sizeof(stridedRoom{})) / 4
	stridedSlack     = 32           // room before and behind a copied plane
	stridedReachX    = 2*narrow + 2 // elements that kernels look at before and behind a plane of x, at most
	stridedReachY    = narrow       // of y
)

// isStrided reports whether these kernels compute a direction.
func isStrided(p *geometry.Shape, d geometry.Direction) bool {
	const least = 3 // columns of y: fewer are computed beside each other
	if !p.Depthwise() || p.StrideH != 2 || p.StrideW != 2 || p.R != p.S || p.DilationH() != 1 || p.DilationW() != 1 || p.OutW() < least {
		return false
	}
	if d != geometry.ToInput {
		return p.S == 3 && p.PadW <= 1
	}
	return p.K == p.C && (p.S == 3 && p.PadW <= 1 || p.S == 5 && p.PadW == 2 || p.S == 7 && p.PadW == 3)
}

// stridedScratch is Scratch for them.
func stridedScratch(p *geometry.Shape, d geometry.Direction) int {
	n := p.H*p.W + p.OutH()*p.OutW() + 6*stridedSlack + stridedRoomElems + kernel.Block
	if d == geometry.ToWeight {
		n += p.K*p.R*p.S*(2+narrow) + kernel.Block
	}
	return n
}

// stridedTerms counts what a direction does. See package cost.
func stridedTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	rows, columns := p.OutH(), p.OutW()
	if d == geometry.ToInput {
		rows, columns = kernel.CeilDiv(p.H+p.PadH, 2), kernel.CeilDiv(p.W, 2)
	}
	t[stridePlanes] = float64(p.N * p.K)
	t[strides] = t[stridePlanes] * float64(rows*kernel.CeilDiv(columns, narrow)*p.R*p.S*narrow) / kernel.Block
	if d == geometry.ToInput && p.R > 3 && kernel.Lanes() < kernel.Block && !kernel.Halves() {
		t[strides] *= 0.8 // a vector of dy is loaded once for more taps
	}
	if p.K > p.C { // each call computes the outputs of one channel
		t[planeCalls] = float64(p.N * p.C)
	}
	return t
}

// strided is a convolution by these kernels.
type strided struct {
	stridedPlanes
	p            geometry.Shape
	plane, out   int       // elements of a plane of x, and of y
	ends         int       // planes at either end of a tensor from which a kernel reaches beyond it
	xCopy, yCopy []float32 // planes with slack before and behind them
}

// newStrided takes its room from scratch.
func newStrided(p *geometry.Shape, scratch []float32) (s strided, rest []float32) {
	s.p, s.plane, s.out = *p, p.H*p.W, p.OutH()*p.OutW()
	s.ends = max(kernel.CeilDiv(stridedReachX, s.plane), kernel.CeilDiv(stridedReachY, s.out))
	scratch = geometry.Aligned(scratch)
	take := func(n int) (v []float32) {
		v, scratch = scratch[:n], scratch[n:]
		clear(v)
		return v
	}
	s.room = (*stridedRoom)(unsafe.Pointer(&take(stridedRoomElems)[0]))
	s.xCopy, s.yCopy = take(s.plane+2*stridedSlack), take(s.out+2*stridedSlack)
	s.zeros, s.lost = &take(stridedSlack)[stridedSlack/4], &take(stridedSlack)[0]
	s.xRow, s.yRow, s.xEnd, s.yEnd = 4*p.W, 4*p.OutW(), 4*s.plane, 4*s.out
	s.xFirst = -p.PadH * s.xRow
	return s, scratch
}

// setPlanes makes the call compute some planes, the first of which are at x and y. Steps are elements.
func (s *strided) setPlanes(planes, xStep, yStep int, x, y *float32) {
	s.planes, s.x, s.y, s.xPlane, s.yPlane = planes, x, y, 4*xStep, 4*yStep
}

// setCopies makes the call compute copies with slack of a plane of x and one of y, of which nil is none.
func (s *strided) setCopies(x, y []float32) {
	copy(s.xCopy[stridedSlack:], x[:min(s.plane, len(x))])
	copy(s.yCopy[stridedSlack:], y[:min(s.out, len(y))])
	s.setPlanes(1, 0, 0, &s.xCopy[stridedSlack], &s.yCopy[stridedSlack])
}

// next is how many planes of y from one on a call computes, at most so many, and whether it computes copies of them:
// it does for the first planes of x, and for the last.
func (s *strided) next(first, most int) (count int, copies bool) {
	p, multiplier := &s.p, s.p.K/s.p.C
	plane, behind := first/multiplier, p.N*p.C-s.ends
	if plane < s.ends || plane >= behind {
		return 1, true
	}
	if count = min(most, p.K-first%p.K, behind-plane); multiplier > 1 {
		count = multiplier - first%multiplier
	}
	return count, false
}

// xStep is the elements from a call's plane of x to the next.
func (s *strided) xStep() int {
	if s.p.K > s.p.C {
		return 0
	}
	return s.plane
}

// forward is Forward.
func (s *strided) forward(x, w, bias, y []float32) {
	p, multiplier := &s.p, s.p.K/s.p.C
	s.outputRuns()
	s.rows()
	for first, count := 0, 0; first < p.N*p.K; first += count {
		k := first % p.K
		from, to := x[first/multiplier*s.plane:], y[first*s.out:]
		s.weights, s.bias, s.biasStep = &w[k*p.R*p.S], s.zeros, 0
		if bias != nil {
			s.bias, s.biasStep = &bias[k], 4
		}
		var copies bool
		if count, copies = s.next(first, p.K); copies {
			s.setCopies(from, nil)
			s.runForward()
			copy(to[:s.out], s.yCopy[stridedSlack:])
		} else {
			s.setPlanes(count, s.xStep(), s.out, &from[0], &to[0])
			s.runForward()
		}
	}
}

func (s *strided) runForward() {
	if s.p.PadW > 0 {
		vecStridedForward3Pad1(&s.stridedPlanes)
	} else {
		vecStridedForward3Pad0(&s.stridedPlanes)
	}
}
