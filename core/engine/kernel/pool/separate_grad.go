package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// spreadTile is a call of the vector kernels for gradients of windows that do not overlap. Steps are bytes. The layout is known
// to gen/norm/separate_grad.go.
type spreadTile struct {
	planes, rows, copies int // copies are the rows of a window
	dy                   *float32
	out                  int // between rows of dy and idx
	dx                   *float32
	line                 int // between rows of dx
	vectors              int
	places               *spreadPlace
	zeros                int
	zerosAt              *int
	rest                 int // from the end of the last windows to that of the plane
	divisor              float32
	divides              int
	idx                  *int32
	width                int // elements of a row of dx
	step                 int // between rows of windows
	start                float32
}

// spreadPlace is where a vector of a row of gradients begins, in bytes, and where those of its windows do; in what order it takes
// them; and for each lane whether it is part of a window, as bits, or its column.
type spreadPlace struct {
	from, to     int
	_            [6]int // what follows are whole cache lines
	order, lanes [kernel.Block]int32
}

func (s *separate) findSpread() {
	p := &s.shape
	for _, to := range starts(p.W, s.spreadLanes) {
		from := max(0, min(to/p.S, s.width-s.spreadLanes))
		mean := spreadPlace{from: 4 * from, to: 4 * to}
		maximum := mean
		for lane := range s.spreadLanes {
			column := to + lane
			mean.order[lane] = int32(min(column/p.S, s.width-1) - from)
			if column < s.width*p.S {
				mean.lanes[lane] = -1
			}
			maximum.lanes[lane] = int32(column)
		}
		maximum.order = mean.order
		s.means, s.maxima = append(s.means, mean), append(s.maxima, maximum)
	}
	for _, at := range starts((p.H-s.rows*p.R)*p.W, s.spreadLanes) {
		s.zeros = append(s.zeros, 4*at)
	}
}

// backwardRows is how many rows of gradients of planes the kernels may take.
func (s *separate) backwardRows(planes int) int {
	p := &s.shape
	if min(s.width, p.W) >= s.spreadLanes {
		return planes * s.rows
	}
	rest := (p.H - s.rows*p.R) * p.W
	return s.rowsWithin(planes, s.spreadLanes, (p.R-1)*p.W+max(p.W, s.spreadLanes)+rest)
}

// spread sends rows of gradients to the places idx, or divides each among its window if that is nil.
func (s *separate) spread(rows int, places []spreadPlace, dy []float32, idx []int32, dx []float32) {
	p := &s.shape
	t := spreadTile{
		copies: p.R, out: 4 * s.width, line: 4 * p.W, vectors: len(places), places: &places[0],
		rest: 4 * (p.H - s.rows*p.R) * p.W, divisor: s.divisor, divides: s.divides, width: p.W, step: 4 * p.R * p.W, start: s.start,
	}
	s.eachPart(rows, func(plane, planes, rows int) {
		out := plane * s.rows * s.width
		t.planes, t.rows, t.dy, t.dx, t.zeros = planes, rows, &dy[out], &dx[plane*p.H*p.W], 0
		if rows == s.rows && len(s.zeros) > 0 {
			t.zeros, t.zerosAt = len(s.zeros), &s.zeros[0]
		}
		if idx == nil {
			vecSpreadMeans(s.spreadLanes, &t)
			return
		}
		t.idx = &idx[out]
		vecSpreadMaxima(s.spreadLanes, &t)
	})
}

// meanGrad divides as many rows of gradients of planes among their windows as vectors may, and returns how many these are.
func (s *separate) meanGrad(planes int, dy, dx []float32) (rows int) {
	if rows = s.backwardRows(planes); rows > 0 {
		s.spread(rows, s.means, dy, nil, dx)
	}
	return rows
}

// maxGrad is meanGrad for maxima: it sends gradients to their places.
func (s *separate) maxGrad(planes int, dy []float32, idx []int32, dx []float32) (rows int) {
	if rows = s.backwardRows(planes); rows > 0 {
		s.spread(rows, s.maxima, dy, idx, dx)
	}
	return rows
}
