package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// gradInput is GradInput.
func (s *strided) gradInput(dy, w, dx []float32) {
	p := &s.p
	s.inputRuns()
	s.body = kernel.CeilDiv(p.H+p.PadH, 2)
	for first, count := 0, 0; first < p.N*p.C; first += count {
		s.weights = &w[first%p.C*p.R*p.S]
		from, to := dy[first*s.out:], dx[first*s.plane:]
		var copies bool
		if count, copies = s.next(first, p.C); copies {
			s.setCopies(nil, from)
			s.runGrad()
			copy(to[:s.plane], s.xCopy[stridedSlack:])
		} else {
			s.setPlanes(count, s.plane, s.out, &to[0], &from[0])
			s.runGrad()
		}
	}
}

func (s *strided) runGrad() {
	switch {
	case s.p.S == maxStridedSize:
		vecStridedGrad5Pad2(&s.stridedPlanes)
	case s.p.PadW > 0:
		vecStridedGrad3Pad1(&s.stridedPlanes)
	default:
		vecStridedGrad3Pad0(&s.stridedPlanes)
	}
}

// stridedPass is a call of weight gradients: how many rows of the filter it takes, from the first on, and which rows of x it loads
// for a row of y: they are two apart.
type stridedPass struct{ rows, first, low, high int }

// passes are those of a filter.
func (s *strided) passes() []stridedPass {
	if s.p.S == maxStridedSize {
		return stridedPasses[1:]
	}
	return stridedPasses[:1]
}

var stridedPasses = []stridedPass{{3, 0, 1, 2}, {2, 0, 2, 2}, {2, 1, 2, 2}, {1, 4, 0, 0}}

func (s *strided) runDots(rows int) {
	switch {
	case rows == 1:
		vecStridedDots5Pad2Rows1(&s.stridedPlanes)
	case rows == 2:
		vecStridedDots5Pad2Rows2(&s.stridedPlanes)
	case s.p.PadW > 0:
		vecStridedDots3Pad1Rows3(&s.stridedPlanes)
	default:
		vecStridedDots3Pad0Rows3(&s.stridedPlanes)
	}
}

// gradWeight adds the gradient of the weights to dw. Lanes is room for a vector of sums for each.
func (s *strided) gradWeight(x, dy, dw, lanes []float32) {
	const most = 1 << 12 // products that a lane adds up
	p, multiplier := &s.p, s.p.K/s.p.C
	s.dotsRuns()
	together := max(1, most/(p.OutH()*kernel.CeilDiv(p.OutW(), narrow)))
	lanes = geometry.Aligned(lanes)
	sums := lanes[len(dw)*narrow:][:len(dw)]
	lanes = lanes[:len(dw)*narrow]
	clear(lanes)
	for first, count := 0, 0; first < p.N*p.K; first += count {
		var copies bool
		count, copies = s.next(first, max(1, dotsElems/s.plane))
		s.dots(first, count, copies, x[first/multiplier*s.plane:], dy[first*s.out:], lanes)
		if images := (first + count) / p.K; (first+count)%p.K == 0 && (images%together == 0 || images == p.N) {
			geometry.LaneSums(narrow, lanes, sums)
			elementwise.AddTo(dw, sums)
			clear(lanes)
		}
	}
}

// dotsElems is how many elements of x several calls look at, one after the other.
const dotsElems = 1 << 13

// dots adds products of some planes to lanes.
func (s *strided) dots(first, count int, copies bool, x, dy, lanes []float32) {
	p := &s.p
	for _, pass := range s.passes() {
		s.rows(pass.first, pass.low, pass.high)
		s.sums = &lanes[(first%p.K*p.R+pass.first)*p.S*narrow]
		if copies {
			s.setCopies(x, dy)
		} else {
			s.setPlanes(count, s.xStep(), s.out, &x[0], &dy[0])
		}
		s.runDots(pass.rows)
	}
}
