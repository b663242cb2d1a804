package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// vector is one of output pixels: its place in the frame, that in y, and how many pixels there are.
type vector struct{ from, to, n int }

// sweep is pairs of vectors of output pixels at equal distances, which the micro-kernel takes in one call where the same
// rows of taps reach them.
type sweep struct {
	count            int
	pair             [2]vector // the first
	fromNext, toNext int       // elements from a pair to the next
	row, rows, next  int       // the row of the first pair, how many rows a pair has, and those from a pair to the next
}

// run convolves one framed image into y. A vector never crosses a row's end.
func (c *call) run(image, y []float32) {
	if len(c.taps) == 0 {
		return
	}
	perRow := kernel.CeilDiv(c.ow, c.Lanes)
	if c.oh == 1 { // pairs lie beside each other
		whole := c.ow / (2 * c.Lanes)
		c.sweep(sweep{count: whole, pair: [2]vector{c.vector(0, 0), c.vector(0, 1)}, fromNext: 2 * c.Lanes, toNext: 2 * c.Lanes, rows: 1}, image, y)
		if v := 2 * whole; v < perRow {
			c.sweep(sweep{count: 1, pair: [2]vector{c.vector(0, v), c.vector(0, v+1)}, rows: 1}, image, y)
		}
		return
	}
	for v := 0; v+1 < perRow; v += 2 { // below each other
		c.sweep(sweep{count: c.oh, pair: [2]vector{c.vector(0, v), c.vector(0, v+1)}, fromNext: c.Width, toNext: c.row, rows: 1, next: 1}, image, y)
	}
	if v := perRow - 1; perRow%2 > 0 { // and the vectors of a pair as well
		c.sweep(sweep{count: c.oh / 2, pair: [2]vector{c.vector(0, v), c.vector(1, v)}, fromNext: 2 * c.Width, toNext: 2 * c.row, rows: 2, next: 2}, image, y)
		if last := c.oh - 1; c.oh%2 > 0 {
			c.sweep(sweep{count: 1, pair: [2]vector{c.vector(last, v), c.vector(last, v+1)}, row: last, rows: 1}, image, y)
		}
	}
}

// vector is vector v of a row; one behind the row has no pixels.
func (c *call) vector(row, v int) vector {
	col := v * c.Lanes
	if col >= c.ow {
		return vector{row * c.Width, row * c.row, 0}
	}
	return vector{row*c.Width + col, row*c.row + col, min(c.Lanes, c.ow-col)}
}

// sweep computes all pairs.
func (c *call) sweep(s sweep, image, y []float32) {
	most := s.count // pairs in a call
	if c.out > c.Rows {
		const products = 1024 // what so many of a pair read stays in L1 for the next rows of outputs
		most = max(1, products/len(c.taps))
	}
	for i, n := 0, 0; i < s.count; i += n {
		first, end := c.reach(&s, i)
		for n = 1; n < min(most, s.count-i); n++ {
			if f, e := c.reach(&s, i+n); f != first || e != end {
				break
			}
		}
		c.pairs(&s, i, n, first, end, image, y)
	}
}

// reach is which rows of taps see pixels from pair i, and not only zeros.
func (c *call) reach(s *sweep, i int) (first, end int) {
	end = len(c.down)
	if c.crosses {
		return first, end
	}
	row := s.row + i*s.next
	for first < end && !c.Sees(row, row+s.rows, int(c.down[first])) {
		first++
	}
	for first < end && !c.Sees(row, row+s.rows, int(c.down[end-1])) {
		end--
	}
	if first == end { // padding alone
		return 0, 0
	}
	return first, end
}

// pairs computes n pairs from pair i on for every output channel, by the rows of taps [first, end).
func (c *call) pairs(s *sweep, i, n, first, end int, image, y []float32) {
	perRow, height := len(c.taps)/len(c.down), gemm.EvenRows(c.out, c.Rows)
	first, end = first*perRow, end*perRow
	from0, from1 := s.pair[0].from+i*s.fromNext, s.pair[1].from+i*s.fromNext
	to0, to1 := s.pair[0].to+i*s.toNext, s.pair[1].to+i*s.toNext
	t := gemm.Tile{Ldc: 4 * c.plane, BNext: 4 * s.fromNext, CNext: 4 * s.toNext, N0: c.Mask(s.pair[0].n), N1: c.Mask(s.pair[1].n)}
	for l := first / gemm.BlockK * gemm.BlockK; l < end || l == 0 && end == first; l += gemm.BlockK {
		block, from := min(gemm.BlockK, len(c.taps)-l), max(first, l)
		t.K, t.Off = min(end, l+block)-from, &c.taps[from]
		if from > first {
			t.Add = 1
		}
		for out := 0; out < c.out; out += height {
			rows := min(height, c.out-out)
			t.Count, t.A = n, &c.weights[l*c.out+out*block+(from-l)*rows]
			t.B0, t.B1, t.C0, t.C1 = &image[from0], &image[from1], &y[out*c.plane+to0], &y[out*c.plane+to1]
			if t.Bias = nil; c.bias != nil && t.Add == 0 {
				t.Bias = &c.bias[out]
			}
			c.Run(rows, &t)
		}
	}
}
