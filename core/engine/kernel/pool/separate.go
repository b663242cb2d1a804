package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// separate are the tables with which vector kernels pool windows that do not overlap, from rows as they lie in memory. Vectors are
// whole: one that is longer than its row runs into what comes next, which the next ones overwrite, so the last rows of all planes
// are left to plain Go. Several goroutines may use the tables.
type separate struct {
	shape         Shape
	rows, width   int           // of a plane of outputs
	lanes         int           // of a vector of outputs
	spreadLanes   int           // of a vector of gradients
	places        []columnPlace // of the vectors of a row of outputs; none if windows have too many columns
	order         []int32       // with which vectors of windows are brought in their order
	columns       []int32       // of the windows of a vector, in the order in which they are loaded
	divisor       float32       // of a mean, or its reciprocal if that is exact
	divides       int
	start         float32       // of sums of gradients: -0 where copies are to keep the sign of a zero
	means, maxima []spreadPlace // of the vectors of a row of gradients
	zeros         []int         // where the vectors behind the last windows of a plane begin, in bytes
}

// columnTile is a call of the vector kernels for windows that do not overlap. Steps are bytes. The layout is known to
// gen/norm/separate.go.
type columnTile struct {
	planes, rows, taps int // taps are the rows of a window
	x                  *float32
	line, step, skip   int // between rows, between rows of windows, and behind those of a plane
	y                  *float32
	out                int // between rows of y
	vectors            int
	places             *columnPlace
	order              *int32
	divisor            float32
	divides            int
	idx                *int32
	columns            *int32 // of the windows of a vector, in the order in which they are loaded
	after, next        int    // how much places grow behind a row of a window, and behind a row of windows
	low                float32
}

// columnPlace is where a vector begins in rows of x and y, in bytes, and at which column.
type columnPlace struct{ x, y, column int }

// mostColumns is how wide windows are that have kernels of their own. The number is known to gen/norm/separate.go.
const mostColumns = 4

// newSeparate are the tables for windows that do not overlap, nil for others.
func newSeparate(p *Shape) *separate {
	s := &separate{shape: *p, rows: p.OutH(), width: p.OutW(), lanes: vectorFor(p.OutW()), spreadLanes: vectorFor(p.W)}
	if kernel.Current() == kernel.Generic || !p.tiles() {
		return nil
	}
	count := p.R * p.S
	s.divisor, s.divides = float32(count), 1
	if count&(count-1) == 0 {
		s.divisor, s.divides = 1/s.divisor, 0
	}
	if p.S <= mostColumns {
		s.findPlaces()
	}
	s.findSpread()
	return s
}

// vectorFor is the size of vectors for rows of n elements: of half as many where more than half of a wider one would run into what comes next.
func vectorFor(n int) int {
	if n <= kernel.Block/2 {
		return kernel.Block / 2
	}
	return kernel.Lanes()
}

// copies makes means sums, and their gradients copies.
func (s *separate) copies() {
	s.divisor, s.divides, s.start = 1, 0, float32(math.Copysign(0, -1))
}

// starts are where the vectors of a row of n elements begin: the last one ends where the row does, unless the row is shorter than a vector.
func starts(n, lanes int) (at []int) {
	for i := 0; i < n; i += lanes {
		at = append(at, max(0, min(i, n-lanes)))
	}
	return at
}

func (s *separate) findPlaces() {
	columns := s.shape.S
	for _, j := range starts(s.width, s.lanes) {
		s.places = append(s.places, columnPlace{4 * columns * j, 4 * j, columns * j})
	}
	s.order, s.columns = make([]int32, s.lanes), make([]int32, s.lanes)
	for w := range s.lanes {
		at := loadedAt(w, columns, s.lanes)
		s.order[w], s.columns[at] = int32(at), int32(columns*w)
	}
	if columns == 3 {
		s.order = thirds(s.lanes)
	}
}

// loadedAt is where window w of a vector lies as the kernels load windows of some columns.
func loadedAt(w, columns, lanes int) int {
	const four = 4 // elements of 128 bits, within which elements move
	switch columns {
	case 2: // pairs of the first vector, pairs of the second
		half := w / (lanes / 2) * 2
		w %= lanes / 2
		return w/2*four + half + w%2
	case 4:
		return w%(lanes/four)*four + w/(lanes/four)
	}
	return w
}

// thirds are, for each of three columns, the places of its elements in the first two of three vectors, and then in those and the third.
func thirds(lanes int) (orders []int32) {
	for column := range 3 {
		for _, third := range []bool{false, true} {
			for w := range lanes {
				at := 3*w + column
				switch {
				case third && at < 2*lanes:
					at = w
				case third:
					at -= lanes
				case at >= 2*lanes:
					at = 0
				}
				orders = append(orders, int32(at))
			}
		}
	}
	return orders
}

// tile is a call for some rows of planes, all but where they lie.
func (s *separate) tile() columnTile {
	p := &s.shape
	return columnTile{
		taps: p.R, line: 4 * p.W, step: 4 * p.R * p.W, skip: 4 * (p.H - s.rows*p.R) * p.W, out: 4 * s.width, vectors: len(s.places), places: &s.places[0],
		order: &s.order[0], columns: &s.columns[0], divisor: s.divisor, divides: s.divides, after: p.W - p.S, next: p.R * p.W, low: float32(math.Inf(-1)),
	}
}

// forwardRows is how many rows of windows of planes the kernels may pool.
func (s *separate) forwardRows(planes int) int {
	p := &s.shape
	if s.places == nil {
		return 0
	}
	if s.width >= s.lanes {
		return planes * s.rows
	}
	return s.rowsWithin(planes, s.lanes, (p.R-1)*p.W+p.S*s.lanes)
}

// rowsWithin is how many rows of windows of planes do not reach behind the last plane, if they take so many outputs from the
// first of a row on, and so many elements from the first of a row of windows on.
func (s *separate) rowsWithin(planes, outputs, elems int) int {
	p := &s.shape
	n := planes * s.rows
	for ; n > 0; n-- {
		plane, row := (n-1)/s.rows, (n-1)%s.rows
		if (n-1)*s.width+outputs <= planes*s.rows*s.width && plane*p.H*p.W+row*p.R*p.W+elems <= planes*p.H*p.W {
			break
		}
	}
	return n
}

// eachPart calls f for what rows are: some whole planes, and rows of one.
func (s *separate) eachPart(rows int, f func(plane, planes, rows int)) {
	if whole := rows / s.rows; whole > 0 {
		f(0, whole, s.rows)
	}
	if rest := rows % s.rows; rest > 0 {
		f(rows/s.rows, 1, rest)
	}
}

// mean averages as many rows of windows of planes as vectors may, and returns how many these are.
func (s *separate) mean(planes int, x, y []float32) (rows int) {
	if rows = s.forwardRows(planes); rows == 0 {
		return 0
	}
	t := s.tile()
	s.eachPart(rows, func(plane, planes, rows int) {
		t.planes, t.rows, t.x, t.y = planes, rows, &x[plane*s.shape.H*s.shape.W], &y[plane*s.rows*s.width]
		runMeanColumns(s.lanes, s.shape.S, &t)
	})
	return rows
}

// max is mean for maxima and their places.
func (s *separate) max(planes int, x, y []float32, idx []int32) (rows int) {
	if rows = s.forwardRows(planes); rows == 0 {
		return 0
	}
	t := s.tile()
	s.eachPart(rows, func(plane, planes, rows int) {
		out := plane * s.rows * s.width
		t.planes, t.rows, t.x, t.y, t.idx = planes, rows, &x[plane*s.shape.H*s.shape.W], &y[out], &idx[out]
		runMaxColumns(s.lanes, s.shape.S, &t)
	})
	return rows
}
