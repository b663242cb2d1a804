package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// small is a depthwise convolution of planes of up to sixteen pixels, for CPUs that compute vectors of as many lanes whole: a plane
// is a vector, and what a tap sees of it a permutation, whatever the stride, the dilation and the padding are. Taps
// that see nothing are left out.
type small struct {
	p       *geometry.Shape
	in, out int // pixels
	table   []smallTap
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
	table                  *smallTap
	weights                *float32 // [planes][weightsPlane]
	weightsPlane           int
	bias                   *float32
	biasPlane              int
	sums                   *float32 // [planes][taps][lanes]
	maskX, maskY           uint16
}

const (
	smallImages   = 8
	smallTapElems = int(unsafe.Sizeof(smallTap{})) / 4
)

// takesSmall reports whether a direction is computed so.
func takesSmall(p *geometry.Shape, d geometry.Direction) bool {
	if !kernel.Wide() || kernel.Halves() || !depthwise(p) || p.K != p.C || max(p.H*p.W, p.OutH()*p.OutW()) > kernel.Block {
		return false
	}
	const few = 9 // taps, of which permutations take less time than two images at a time do
	taps := smallTaps(p)
	return taps > 0 && (taps <= few || d == geometry.ToWeight || !takesWideStrided(p, d))
}

// smallScratch is the elements that a direction needs.
func smallScratch(p *geometry.Shape, d geometry.Direction) int {
	n := p.R*p.S*smallTapElems + 2*kernel.Block
	if d == geometry.ToWeight {
		n += p.K * p.R * p.S * (kernel.Block + 2)
	}
	return n
}

// smallTerms counts what a direction does. See package cost.
func smallTerms(p *geometry.Shape) (t cost.Terms) {
	images := float64(kernel.CeilDiv(p.N, smallImages))
	t[wideTiles] = images * float64(p.C)
	t[wideProducts] = 2 * float64(p.N*p.C*smallTaps(p)) // a permutation takes as long as a product
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
	s = small{p: p, in: p.H * p.W, out: p.OutH() * p.OutW()}
	rest = aligned(scratch)
	s.table = unsafe.Slice((*smallTap)(unsafe.Pointer(&rest[0])), p.R*p.S)[:0]
	rest = rest[p.R*p.S*smallTapElems:]
	for tap := range p.R * p.S {
		t := smallTap{at: int32(4 * tap)}
		for to := range s.out {
			row, column := to/p.OutW()*p.StrideH-p.PadH+tap/p.S*p.DilationH(), to%p.OutW()*p.StrideW-p.PadW+tap%p.S*p.DilationW()
			if row < 0 || row >= p.H || column < 0 || column >= p.W {
				continue
			}
			at, from := to, row*p.W+column
			if toInput {
				at, from = from, to
			}
			t.order[at] = int32(from)
			t.mask |= 1 << at
		}
		if t.mask != 0 {
			s.table = append(s.table, t)
		}
	}
	return s, rest
}

// call is that for images from n on, whose planes have in pixels of x and out pixels of y.
func (s *small) call(n, in, out int, x, y []float32) smallPlanes {
	p := s.p
	return smallPlanes{
		x: &x[n*p.C*in], y: &y[n*p.C*out], xImage: 4 * p.C * in, yImage: 4 * p.C * out, planes: p.C, xPlane: 4 * in, yPlane: 4 * out,
		taps: len(s.table), table: &s.table[0], weightsPlane: 4 * p.R * p.S, maskX: uint16(1<<in - 1), maskY: uint16(1<<out - 1),
	}
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
		runSmallForward(images, &t)
	})
}

// overImages calls f for all images, as many at a time as a kernel takes.
func (s *small) overImages(f func(n, images int)) {
	for n, images := 0, smallImages; n < s.p.N; n += images {
		for n+images > s.p.N {
			images /= 2
		}
		f(n, images)
	}
}

func runSmallForward(images int, t *smallPlanes) {
	switch images {
	case 1:
		vecSmallForward1(t)
	case 2:
		vecSmallForward2(t)
	case 4:
		vecSmallForward4(t)
	default:
		vecSmallForward8(t)
	}
}

func runSmallDots(images int, t *smallPlanes) {
	switch images {
	case 1:
		vecSmallDots1(t)
	case 2:
		vecSmallDots2(t)
	case 4:
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
		runSmallDots(images, &t)
	})
	elementwise.RowSums(n, kernel.Block, lanes, totals)
	for c := range p.C {
		to := sums[c*p.R*p.S:][:p.R*p.S]
		for i, v := range totals[c*len(s.table):][:len(s.table)] {
			to[s.table[i].at/4] = v
		}
	}
}
