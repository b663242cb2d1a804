package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// tapTile is a call of the vector kernels that compute outputs from the taps of a frame. The layout is known to gen/norm/taps.go.
type tapTile struct {
	blocks int // of four vectors
	x      *float32
	at     *int32 // places of x
	y      *float32
	idx    *int32 // places of y
	count  int
	taps   *poolTap
}

// set is for n elements of y.
func (t *tapTile) set(n int, taps []poolTap) {
	const vectors = 4
	t.blocks, t.count, t.taps = kernel.CeilDiv(n, vectors*kernel.Lanes()), len(taps), &taps[0]
}

// cutTile is a call of the vector kernels that copy rows of frames to planes. Steps are bytes. The layout is known to gen/norm/cuts.go.
type cutTile struct {
	planes, rows int
	x            *float32
	xStep, xSkip int // between rows, and behind those of a plane
	y            *float32
	yStep, ySkip int
	vectors      int
	starts       *int // of vectors in a row, in bytes
	at           *int32
	idx          *int32
	columns      *int32 // where in its row each window begins
	from, line   int    // place at which the first row of windows begins, and between them
	factors      *float32
	factorStep   int
	order        *int32
	second       int // from a phase of columns to the other
}

// cutRows is a band of planes with so many rows of width elements, of which vectors write some from the start of a row on.
type cutRows struct {
	band
	height, width, written int
}

// row is the row in all planes.
func (c *cutRows) row(plane, row int) int { return (c.plane+plane)*c.height + c.from + row }

// each calls f for whole planes or rows of one, as far as vectors that are longer than rows do not reach behind the end of all planes, and
// plain for the other rows. Rows follow each other, so that the next ones overwrite what is too much.
func (c *cutRows) each(planes int, f func(plane, planes, rows int), plain func(plane, row int)) {
	end := planes * c.height * c.width
	fits := func(plane, row int) bool { return c.row(plane, row)*c.width+c.written <= end }
	plane := 0
	if last := c.planes - 1; fits(last, c.rows-1) {
		plane = c.planes
	} else if last > 0 && fits(last-1, c.rows-1) {
		plane = last
	}
	if plane > 0 {
		f(0, plane, c.rows)
	}
	for ; plane < c.planes; plane++ {
		n := c.rows
		for n > 0 && !fits(plane, n-1) {
			n--
		}
		if n > 0 {
			f(plane, 1, n)
		}
		for row := n; row < c.rows; row++ {
			plain(plane, row)
		}
	}
}
