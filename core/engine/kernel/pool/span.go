package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// maxSpan is a call of the vector kernel for the maximum of one window that has many columns. The layout is known to gen/norm/span.go.
type maxSpan struct {
	rows          int
	x             *float32
	line          int // bytes between rows of x
	vectors, rest int // whole ones of a row of the window, and what it has besides
	tail          kernel.Mask
	best          *float32
	at            *int32
	first         *int32 // of each lane
	width, lanes  int
	lowest        float32
}

var firstLanes = [kernel.Block]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// maxSpans is max for windows of many columns, one after the other.
func (s *separate) maxSpans(planes int, x, y []float32, idx []int32) {
	var best [kernel.Block]float32
	var at [kernel.Block]int32
	p, lanes := &s.shape, kernel.Lanes()
	t := maxSpan{rows: p.R, line: 4 * p.W, best: &best[0], at: &at[0], first: &firstLanes[0], width: p.W, lanes: lanes, lowest: float32(math.Inf(-1))}
	columns := p.S
	if p.S == p.W { // one piece
		t.rows, columns = 1, p.R*p.W
	}
	t.vectors, t.rest, t.tail = columns/lanes, columns%lanes, kernel.FirstLanes(columns%lanes)
	for o := range planes * s.rows * s.width {
		plane, row, column := o/(s.rows*s.width), o/s.width%s.rows, o%s.width
		base := row*p.R*p.W + column*p.S
		t.x = &x[plane*p.H*p.W+base]
		vecMaxSpan(&t)
		lane := largestLane(best[:lanes], at[:lanes])
		y[o], idx[o] = best[lane], at[lane]+int32(base)
	}
}

// largestLane is the one with the first of equal maxima, or with the last NaN. It compares integers that are ordered as the maxima
// and then against their places, with the lane in the lowest bits: compilers do so without branches, which would be predicted wrongly.
func largestLane(best []float32, at []int32) (lane int) {
	const laneBits = 4
	var sum float32 // NaN if any is
	top := int64(math.MinInt64)
	at = at[:len(best)]
	for i, v := range best {
		sum += v
		b := math.Float32bits(v)
		if v == 0 {
			b = 0
		}
		key := int32(b)
		key ^= key >> 31 & math.MaxInt32
		top = max(top, (int64(key)<<(32-laneBits)-int64(at[i]))<<laneBits|int64(i))
	}
	if sum != sum {
		return largestOfNaNs(best, at)
	}
	return int(top & (1<<laneBits - 1))
}

func largestOfNaNs(best []float32, at []int32) (lane int) {
	top, place := best[0], at[0]
	for i, v := range best {
		if v > top || v == top && at[i] < place || v != v && (top == top || at[i] > place) {
			lane, top, place = i, v, at[i]
		}
	}
	return lane
}
