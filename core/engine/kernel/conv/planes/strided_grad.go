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
	case s.p.S == 7:
		vecStridedGrad7Pad3(&s.stridedPlanes)
	case s.p.S == 5:
		vecStridedGrad5Pad2(&s.stridedPlanes)
	case s.p.PadW > 0:
		vecStridedGrad3Pad1(&s.stridedPlanes)
	default:
		vecStridedGrad3Pad0(&s.stridedPlanes)
	}
}

// gradWeight adds the gradient of the weights to dw. Lanes is room for a vector of sums for each.
func (s *strided) gradWeight(x, dy, dw, lanes []float32) {
	const most = 1 << 12 // products that a lane adds up
	p, multiplier := &s.p, s.p.K/s.p.C
	s.dotsRuns()
	s.rows()
	together := max(1, most/(p.OutH()*kernel.CeilDiv(p.OutW(), narrow)))
	lanes = geometry.Aligned(lanes)
	sums := lanes[len(dw)*narrow:][:len(dw)]
	lanes = lanes[:len(dw)*narrow]
	clear(lanes)
	for first, count := 0, 0; first < p.N*p.K; first += count {
		var copies bool
		count, copies = s.next(first, p.K)
		s.dots(first, count, copies, x[first/multiplier*s.plane:], dy[first*s.out:], lanes)
		if images := (first + count) / p.K; (first+count)%p.K == 0 && (images%together == 0 || images == p.N) {
			geometry.LaneSums(narrow, lanes, sums)
			elementwise.AddTo(dw, sums)
			clear(lanes)
		}
	}
}

// dots adds products of some planes to lanes.
func (s *strided) dots(first, count int, copies bool, x, dy, lanes []float32) {
	p := &s.p
	s.sums = &lanes[first%p.K*p.R*p.S*narrow]
	if copies {
		s.setCopies(x, dy)
	} else {
		s.setPlanes(count, s.xStep(), s.out, &x[0], &dy[0])
	}
	if p.PadW > 0 {
		vecStridedDots3Pad1(&s.stridedPlanes)
	} else {
		vecStridedDots3Pad0(&s.stridedPlanes)
	}
}
