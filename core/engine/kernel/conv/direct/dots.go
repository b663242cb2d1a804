package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Dots computes the products of rows of dy with rows of x, each a sum over pairs of vectors, with the micro-kernels of the weight
// gradient: for packages that arrange dy and x in their own ways. Either it adds up all pairs of a window in one call, or it keeps
// vectors of sums, in which windows of several images add up.
type Dots struct {
	dotShape
	dy, x   int  // rows
	views   bool // keeps vectors of sums, by the micro-kernel of views, which has tiles of many sizes
	swapped bool // dy and x change places, where that leaves less of tiles empty
	sums    [maxDotRows * maxDotCols]float32
}

// Matrix is rows that lie so many elements apart.
type Matrix struct {
	Data []float32
	Line int
}

// Window is the pairs of vectors of a sum: rows and columns of pixels of so many vectors each, and behind every row a Tail of fewer lanes than
// a vector has, which Keep alone takes. Steps are elements.
type Window struct{ Rows, Cols, Vectors, DYRow, DYCol, XRow, XCol, Tail int }

// Pairs is how many there are.
func (w *Window) Pairs() int { return w.Rows * w.Cols * w.Vectors }

// mostDotSums is the most vectors of sums that are kept, of one tap.
const mostDotSums = 1 << 11

// NewDots is for so many rows of dy and of x. Where the columns of its windows follow each other, vectors of sums are kept if
// the level's registers hold enough of them.
func NewDots(dy, x int, follows bool) Dots {
	d := Dots{dy: dy, x: x}
	if kept := NewKept(dy, x); kernel.Current() == kernel.AVX512 && follows && kept.keptSums() <= mostDotSums {
		return kept
	}
	least := 0.0
	for _, s := range dotShapes {
		for _, swapped := range [2]bool{false, true} {
			if c := s.tiles(pick(swapped, dy, x)) * s.step(); s.lanes == kernel.Lanes() && (least == 0 || c < least) {
				d.dotShape, d.swapped, least = s, swapped, c
			}
		}
	}
	return d
}

// NewKept is NewDots that keeps vectors of sums at every level.
func NewKept(dy, x int) Dots {
	lanes := kernel.Lanes()
	this, _ := viewSumsOf(lanes, dy, x)
	other, _ := viewSumsOf(lanes, x, dy)
	return Dots{dotShape: dotShape{lanes: lanes}, dy: dy, x: x, views: true, swapped: other < this}
}

// keptSums is how many vectors of sums are kept.
func (d *Dots) keptSums() int {
	rows, cols := pick(d.swapped, d.dy, d.x)
	sums, _ := viewSumsOf(d.lanes, rows, cols)
	return sums
}

func pick(swapped bool, a, b int) (int, int) {
	if swapped {
		return b, a
	}
	return a, b
}

// Keeps reports whether vectors of sums are kept: Keep adds to them, and Sum adds them up. Otherwise, Add does both.
func (d *Dots) Keeps() bool { return d.views }

// Cost is how many tiles the products take, the cycles of all of them for a pair of vectors, as the core could issue them, and the
// sums that they give.
func (d *Dots) Cost() (tiles, step, sums float64) {
	rows, cols := pick(d.swapped, d.dy, d.x)
	if d.views {
		all, n := viewSumsOf(d.lanes, rows, cols)
		return float64(n), cost.FMAs(float64(all)), float64(all)
	}
	tiles = d.tiles(rows, cols)
	return tiles, tiles * d.step(), tiles * float64(d.rows*d.cols)
}

// StepElems is the elements of a scratch that the places of so many pairs of vectors take.
func (d *Dots) StepElems(pairs int) int {
	if d.views {
		return 0
	}
	return pairs * int(unsafe.Sizeof(dotStep{})/4)
}

// SetSteps notes in room where the pairs of vectors lie.
func (d *Dots) SetSteps(room []float32, w Window) {
	if d.views || w.Pairs() == 0 {
		return
	}
	all := gemm.TileOf(d.lanes).Mask(d.lanes)
	steps := unsafe.Slice((*dotStep)(unsafe.Pointer(&room[0])), w.Pairs())
	for i := range w.Rows {
		for j := range w.Cols {
			dy, x := 4*(i*w.DYRow+j*w.DYCol), 4*(i*w.XRow+j*w.XCol)
			if d.swapped {
				dy, x = x, dy
			}
			for v := range steps[:w.Vectors] {
				at := 4 * v * d.lanes
				steps[v] = dotStep{dy: int32(dy + at), x: int32(x + at), lanes: all}
			}
			steps = steps[w.Vectors:]
		}
	}
}

// Add adds the products over a window to dst, whose rows and columns lie so many elements apart. room is as SetSteps left it.
func (d *Dots) Add(pairs int, room []float32, dy, x Matrix, dst []float32, dstRow, dstCol int) {
	rows, cols := pick(d.swapped, d.dy, d.x)
	if d.swapped {
		dy, x, dstRow, dstCol = x, dy, dstCol, dstRow
	}
	t := dotTile{whole: pairs, steps: (*dotStep)(unsafe.Pointer(&room[0])), stride: 4 * dy.Line, out: &d.sums[0]}
	height := d.rows
	if rows < height {
		height, t.stride = 1, 0
	}
	for i := 0; i < rows; i += height {
		first := min(i, rows-height)
		t.dy = &dy.Data[first*dy.Line]
		for j := 0; j < cols; j += d.cols {
			for k := range d.cols {
				t.x[k] = &x.Data[min(j+k, cols-1)*x.Line]
			}
			runDotTile(d.dotShape, &t)
			for row := i; row < min(i+height, rows); row++ {
				for k, v := range d.sums[(row-first)*d.cols:][:min(d.cols, cols-j)] {
					dst[row*dstRow+(j+k)*dstCol] += v
				}
			}
		}
	}
}

// DotTile is some rows of dy, and of x, whose products are added up at a time.
type DotTile struct{ row, rows, first, end, views int }

// Sums is how many it gives.
func (t *DotTile) Sums() int { return t.rows * t.views }

// EachTile calls f for every tile.
func (d *Dots) EachTile(f func(t DotTile)) {
	rows, cols := pick(d.swapped, d.dy, d.x)
	eachViewRow(d.lanes, rows, cols, func(row, rows, tiles int) {
		for i := range tiles {
			t := DotTile{row: row, rows: rows}
			t.first, t.end, t.views = viewTile(i, tiles, cols)
			f(t)
		}
	})
}

// Keep adds the products of a tile over a window to vectors of sums, [Sums][lanes].
func (d *Dots) Keep(tile DotTile, w *Window, dy, x Matrix, sums []float32) {
	t := viewDots{images: w.Rows, vectors: w.Cols * w.Vectors, dyImage: 4 * w.DYRow, xImage: 4 * w.XRow, sums: &sums[0]}
	if w.Tail > 0 {
		t.tail = gemm.TileOf(d.lanes).Mask(w.Tail)
	}
	cols := d.x
	if d.swapped {
		dy, x, cols, t.dyImage, t.xImage = x, dy, d.dy, t.xImage, t.dyImage
	}
	t.dy, t.dyRow = &dy.Data[tile.row*dy.Line], 4*dy.Line
	for k := range tile.views {
		t.x[k] = &x.Data[min(tile.first+k, cols-1)*x.Line]
	}
	runViewDots(d.lanes, tile.rows, tile.views, &t)
}

// Sum adds the totals of a tile's sums to dst, whose rows and columns lie so many elements apart.
func (d *Dots) Sum(tile DotTile, totals, dst []float32, dstRow, dstCol int) {
	if d.swapped {
		dstRow, dstCol = dstCol, dstRow
	}
	for j := range tile.rows {
		to := dst[(tile.row+j)*dstRow+tile.first*dstCol:]
		for k, v := range totals[j*tile.views:][:tile.end-tile.first] {
			to[k*dstCol] += v
		}
	}
}
