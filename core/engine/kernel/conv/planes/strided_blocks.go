package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the kernels do in a block. Weight gradients mask dy in the first, and x as well where that says so.
const (
	wayInner = iota
	wayFirst
	wayInnerMasked
	wayFirstMasked
)

// The masks of a block: those of dy moved back by a column less than their number, or the order of results that are moved
// back; that of x's odd columns; and that of these results.
const (
	maskDY    = 0
	orderBack = 0
	maskOdd   = 3
	maskBack  = 4
)

// laneColumns is the order of columns in which the kernels compute.
var laneColumns = [narrow]int{0, 1, 4, 5, 2, 3, 6, 7}

const allBits = ^uint32(0)

// rows divides the rows of y, each of which loads those of x that meet the rows 1 and 2 of the filter: the first has met the row of y above.
func (s *strided) rows() {
	p, h := &s.p, s.p.OutH()
	s.head = min(h, kernel.CeilDiv(max(0, p.PadH-1), 2))
	inside := 0 // rows that see none below the plane
	if room := p.H - 3 + p.PadH; room >= 0 {
		inside = min(h, room/2+1)
	}
	if s.body = inside - s.head; s.body <= 0 {
		s.head, s.body = h, 0
	}
	s.tail = h - s.head - s.body
}

// spread calls f for the runs of blocks of n columns: the first, those inside, and the last, which overlaps the one before
// it. f gets the first column, and the first that no run before it has.
func (s *strided) spread(n int, f func(r *columnRun, at, counted int)) {
	inner := max(0, kernel.CeilDiv(n, narrow)-2)
	starts, counted, counts := [3]int{0, narrow, max(0, n-narrow)}, [3]int{0, narrow, (inner + 1) * narrow}, [3]int{1, inner, 0}
	if n > narrow {
		counts[2] = 1
	}
	for i := range starts {
		r := &s.room.runs[i]
		r.blocks, r.x, r.y = counts[i], 8*starts[i], 4*starts[i]
		f(r, starts[i], counted[i])
	}
}

// maskColumns masks the odd columns of x behind the end of a row, and reports whether y sees any.
func (r *columnRun) maskColumns(p *geometry.Shape, at int) (masked bool) {
	for lane, column := range laneColumns {
		if 2*(at+column)+1 < p.W {
			r.masks[maskOdd][lane] = allBits
		} else if at+column < p.OutW() {
			masked = true
		}
	}
	return masked
}

// moves sets the order and the mask of results that are moved back by a column.
func (r *columnRun) moves() {
	var lanes [narrow]uint32 // of columns
	for lane, column := range laneColumns {
		lanes[column] = uint32(lane)
	}
	for lane, column := range laneColumns {
		if column > 0 {
			r.masks[orderBack][lane], r.masks[maskBack][lane] = lanes[column-1], allBits
		}
	}
}

// outputRuns are the blocks of the rows of y.
func (s *strided) outputRuns() {
	s.spread(s.p.OutW(), func(r *columnRun, at, _ int) {
		r.moves()
		masked := r.maskColumns(&s.p, at)
		switch {
		case s.p.PadW == 0:
			r.way = wayInner
		case at == 0 && masked:
			r.way = wayFirstMasked
		case at == 0:
			r.way = wayFirst
		case masked:
			r.way = wayInnerMasked
		}
	})
}

// dotsRuns are the blocks of pairs of columns of x that weight gradients multiply with dy.
func (s *strided) dotsRuns() {
	p := &s.p
	s.spread(kernel.CeilDiv(p.W, 2), func(r *columnRun, at, counted int) {
		if r.maskColumns(p, at) {
			r.way = wayInnerMasked
		}
		for lane, column := range laneColumns {
			for i := range 3 {
				j, inside := at+column-i+1, at+column >= counted && 2*(at+column) < p.W
				r.masks[maskDY+i][lane] = 0
				if inside && j >= 0 && j < p.OutW() {
					r.masks[maskDY+i][lane] = allBits
				} else if r.way == wayInner {
					r.way = wayFirst
				}
			}
		}
	})
}

// inputRuns are the blocks of pairs of columns of x, from the right to the left: what a row of them writes beyond
// its end is written again. The last two blocks and the first see columns beside y, which masks leave out.
func (s *strided) inputRuns() {
	p, pairs := &s.p, kernel.CeilDiv(s.p.W, 2)
	blocks, top := kernel.CeilDiv(pairs, narrow), kernel.CeilDiv(p.PadW, 2)
	starts := [4]int{max(0, pairs-narrow), (blocks - 2) * narrow, (blocks - 3) * narrow, 0}
	counts := [4]int{1, min(1, max(0, blocks-2)), max(0, blocks-3), min(1, blocks-1)}
	for i := range s.room.runs {
		r := &s.room.runs[i]
		r.blocks, r.x, r.y = counts[i], 8*starts[i], 4*(starts[i]+top)
		for back := range (p.S + 1) / 2 {
			for lane, pair := range laneColumns {
				if j := starts[i] + pair + top - back; j >= 0 && j < p.OutW() {
					r.masks[back][lane] = allBits
				}
			}
		}
	}
}
