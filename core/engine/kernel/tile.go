package kernel

import "unsafe"

// tile is a call of a micro-kernel: mr rows of C by two vectors of columns. Row l
// of B is read at the byte offset off[l] from b0 and b1, so that a packed panel
// and the shifted views of an image look alike (the idea of Dukhan, "The Indirect
// Convolution Algorithm", 2019). The layout is known to gen/gemm.go.
type tile struct {
	k      int       // products per sum
	a      *float32  // k groups of mr values
	b0, b1 *float32  // the two vectors of columns of B
	off    *int32    // k byte offsets
	c0, c1 *float32  // where they go in the first row of C
	ldc    int       // bytes between rows of C
	n0, n1 laneCount // how many columns to write
	bias   *float32  // mr start values, or nil for 0
	add    int       // 1 adds to C
}

// dotTile is a call of the micro-kernel of weight gradients: for the rows of dy
// and the views of x of one tile, Σ over steps and lanes of dy·x. The layout is
// known to gen/dot.go.
type dotTile struct {
	count  int      // steps
	steps  *dotStep // count of them
	dy     *float32 // first row of dy
	stride int      // bytes between rows of dy
	x      [maxDotCols]*float32
	out    *float32 // dotRows×dotCols sums
}

// dotStep is a vector of pixels: byte offsets into dy and x, and how many lanes count.
type dotStep struct {
	dy, x int32
	lanes laneCount
}

// Dimensions of the tiles.
const (
	maxTileRows = 14
	maxTileCols = 32
	maxDotRows  = 4
	maxDotCols  = 6
)

// laneCount stands for a number of lanes in the form that the active level wants.
type laneCount uintptr

// laneTable is a window over 8 lanes of sign bits, for AVX2's masked moves.
var laneTable = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

func lanesOf(n int) laneCount {
	if level() == AVX512 {
		return laneCount(1)<<n - 1
	}
	return laneCount(unsafe.Pointer(&laneTable[8-n]))
}

// shape is the tile that suits a level: rows and columns of C, lanes of a vector,
// rows and columns of the weight gradient.
type shape struct{ rows, cols, lanes, dotRows, dotCols int }

var shapes = [...]shape{
	Generic: {rows: 2, cols: 3},
	AVX2:    {rows: 6, cols: 16, lanes: 8, dotRows: 3, dotCols: 3},
	AVX512:  {rows: maxTileRows, cols: maxTileCols, lanes: 16, dotRows: maxDotRows, dotCols: maxDotCols},
}

// shapeOf is the tile for element type T at the active level.
func shapeOf[T Float]() shape {
	if is32[T]() {
		return shapes[level()]
	}
	return shapes[Generic]
}

// evenRows splits m rows into panels of at most most rows whose heights differ little.
func evenRows(m, most int) int {
	panels := (m + most - 1) / most
	return (m + panels - 1) / panels
}
