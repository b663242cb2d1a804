package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// nestTile is a call of a micro-kernel: it computes tiles of some rows of one vector. Their products lie in three nested
// loops: at each a has a value for every row, and b a vector. All steps are bytes. The layout is known to gen/conv/nest.go.
type nestTile struct {
	a, b                 *float32
	c                    *float32
	ldc                  int      // between rows of c
	inner, middle, outer int      // how often each loop runs
	aInner, bInner       int      // added after each product,
	aMiddle, bMiddle     int      // after those of an inner loop,
	aOuter, bOuter       int      // and of a middle one
	tiles                int      // beside each other, from the same a; it counts them down
	bNext, cNext         int      // from one to the next
	bPair, cPair         int      // from one vector of a pair to the other
	bias                 *float32 // what the sums of each row start at, or nil to add them to c
	bAt, cAt             int      // of the next tile, from b and c on
}

// runTiles computes so many tiles beside each other. Those of eight lanes make pairs where vectors are wider, and computed whole.
func (t *nestTile) runTiles(lanes, rows, tiles int) {
	t.bAt, t.cAt = 0, 0
	if pairs := tiles / 2; pairs > 0 && lanes < kernel.Lanes() && !kernel.Halves() {
		t.tiles, t.bPair, t.cPair = pairs, t.bNext, t.cNext
		t.bNext, t.cNext = 2*t.bPair, 2*t.cPair
		runNestPair(rows, t)
		t.bNext, t.cNext = t.bPair, t.cPair
		tiles %= 2
	}
	t.tiles = tiles
	if n := together(lanes, rows); n > 1 && tiles >= n {
		runNestTiles(lanes, rows, t)
	}
	if t.tiles > 0 {
		runNestTile(lanes, rows, t)
	}
}

// fewRows is the most rows of which vectors of eight lanes are computed several tiles at a time: of more, they would not fit registers.
const fewRows = 6

// together is how many tiles of so many rows are computed at a time, as gen/conv/nest.go says.
func together(lanes, rows int) int {
	if lanes == narrow && rows > fewRows {
		return 1
	}
	return [maxRows]int{4, 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2}[rows-1]
}

// maxRows is how high tiles may be.
const maxRows = 12

// loop says what one loop steps over in a and b, in elements.
type loop struct{ n, a, b int }

// setLoops sets the loops; each begins where the one around it stands.
func (t *nestTile) setLoops(outer, middle, inner loop) {
	const bytes = 4
	t.inner, t.aInner, t.bInner = inner.n, bytes*inner.a, bytes*inner.b
	t.middle, t.aMiddle, t.bMiddle = middle.n, bytes*(middle.a-inner.n*inner.a), bytes*(middle.b-inner.n*inner.b)
	t.outer, t.aOuter, t.bOuter = outer.n, bytes*(outer.a-middle.n*middle.a), bytes*(outer.b-middle.n*middle.b)
}

// run is outputs beside each other along an axis, the first one and how many, of which the taps from first on, so many, see
// pixels of the image.
type run struct{ at, n, first, taps int }

// maxRuns bounds the runs of an axis. There are at most two for each tap, and one.
const maxRuns = 40

// runs are those outputs of an axis that see any pixel.
type runs struct {
	n   int
	all [maxRuns]run
}

// list is the runs in order.
func (r *runs) list() []run { return r.all[:r.n] }

// between finds the runs of the outputs [from, end).
func (r *runs) between(a *geometry.Axis, from, end int) {
	r.n = 0
	for j := from; j < end; j++ {
		first, taps := seeing(a, j)
		if taps == 0 {
			continue
		}
		if r.n > 0 {
			if last := &r.all[r.n-1]; last.first == first && last.taps == taps && last.at+last.n == j {
				last.n++
				continue
			}
		}
		r.all[r.n] = run{j, 1, first, taps}
		r.n++
	}
}

// seeing is the taps through which output j sees pixels of the image: the first, and how many.
func seeing(a *geometry.Axis, j int) (first, taps int) {
	at := j*a.Stride + a.First
	end := a.Taps
	for first < end && !inside(at+first*a.Step, a.In) {
		first++
	}
	for end > first && !inside(at+(end-1)*a.Step, a.In) {
		end--
	}
	return first, end - first
}

// seeingAny is how many of the outputs [from, end) see any pixel.
func seeingAny(a *geometry.Axis, from, end int) (n int) {
	for j := from; j < end; j++ {
		if _, taps := seeing(a, j); taps > 0 {
			n++
		}
	}
	return n
}

func inside(at, n int) bool { return at >= 0 && at < n }
