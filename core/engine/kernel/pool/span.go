package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// maxSpan is a call of the vector kernel for the maxima of windows that have many elements side by side. The layout is known to
// gen/norm/span.go.
type maxSpan struct {
	windows, rows int // rows are those of a window
	x             *float32
	line, step    int // bytes between rows of a window, and between windows
	vectors, rest int // whole ones of a row of a window, and what it has besides
	tail          kernel.Mask
	at            *int32 // of each window: the place of its maximum, from its first element on
	first         *int32 // of each lane
	width, lanes  int
	lowest        float32
	none          int32
	sums          [kernel.Block]float32 // NaN in one lane if a maximum is
}

var firstLanes = [kernel.Block]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// spans reports whether the windows are taken one after the other: those that have many columns, or many elements in one piece.
func (s *separate) spans() bool {
	p := &s.shape
	return p.S > mostColumns || p.S == p.W && p.R*p.S >= kernel.Block/2
}

// maxSpans is max for such windows. It calls plain for a row of outputs, and where that lies in x and y, of which some are NaN.
func (s *separate) maxSpans(planes int, x, y []float32, idx []int32, plain func(in, out, row int)) {
	p, lanes := &s.shape, kernel.Lanes()
	t := maxSpan{rows: p.R, line: 4 * p.W, step: 4 * p.S, first: &firstLanes[0], width: p.W, lanes: lanes, lowest: float32(math.Inf(-1)), none: math.MaxInt32}
	columns := p.S
	if p.S == p.W { // one piece
		t.rows, columns = 1, p.R*p.W
	}
	t.vectors, t.rest, t.tail = columns/lanes, columns%lanes, kernel.FirstLanes(columns%lanes)
	if p.global() {
		s.maxGlobal(t, planes, x, y, idx, plain)
		return
	}
	p.eachRow(0, planes, func(in, out, row int) {
		first := row * p.R * p.W
		t.windows = s.width
		if !t.run(x[in+first:], p.S, first, p.S, y[out:], idx[out:]) {
			plain(in, out, row)
		}
	})
}

// maxGlobal is maxSpans of planes that are one window each, some planes in a call.
func (s *separate) maxGlobal(t maxSpan, planes int, x, y []float32, idx []int32, plain func(in, out, row int)) {
	const most = 64
	size := s.shape.H * s.shape.W
	t.step = 4 * size
	for from := 0; from < planes; from += most {
		t.windows = min(most, planes-from)
		if !t.run(x[from*size:], size, 0, 0, y[from:], idx[from:]) {
			for i := from; i < from+t.windows; i++ {
				plain(i*size, i, 0)
			}
		}
	}
}

// run writes the maxima of windows that begin step elements after each other, and their places, of which first is that of the first
// window's first element, and the next one's is next behind it. It reports whether no maximum is NaN; if one is, it has written none.
func (t *maxSpan) run(x []float32, step, first, next int, y []float32, idx []int32) bool {
	t.x, t.at = &x[0], &idx[0]
	vecMaxSpan(t)
	var sum float32
	for _, v := range t.sums {
		sum += v
	}
	if sum != sum {
		return false
	}
	y, idx = y[:t.windows], idx[:t.windows]
	for o, at := range idx {
		y[o], idx[o] = x[o*step+int(at)], at+int32(first+o*next)
	}
	return true
}
