package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// Tile is a call of a micro-kernel: mr rows of C by two vectors of columns. Row l
// of B is read at the byte offset off[l] from b0 and b1, so that a packed panel
// and the shifted views of an image look alike (the idea of Dukhan, "The Indirect
// Convolution Algorithm", 2019). The layout is what gen/gemm/families.go says.
type Tile struct {
	K      int         // products per sum
	A      *float32    // k groups of mr values
	B0, B1 *float32    // the two vectors of columns of B
	Off    *int32      // k byte offsets
	C0, C1 *float32    // where they go in the first row of C
	Ldc    int         // bytes between rows of C
	N0, N1 kernel.Mask // how many columns to write
	Bias   *float32    // mr start values, or nil for 0
	Add    int         // 1 adds to C
	Ahead  int         // bytes from C0 to what is written later, and prefetched; negative for nothing

	// Several tiles, beside each other from the same A or below each other from the same B: how many, which the kernel counts
	// down (0 is 1, too), and the bytes from one to the next, by which it moves B0 and B1, C0 and C1, A, and Bias.
	Count, BNext, CNext, ANext, BiasNext int
}

// The largest tile of any level.
const (
	maxTileRows = 14
	maxTileCols = 32
)

// TileShape is the tile that suits a level: rows and columns of C, and lanes of a vector.
type TileShape struct{ Rows, cols, Lanes int }

// TileShapes are the tiles of every level.
var TileShapes = [...]TileShape{
	kernel.Generic: {Rows: 2, cols: 3},
	kernel.NEON:    {Rows: 6, cols: 16, Lanes: 8},
	kernel.AVX2:    {Rows: 6, cols: 16, Lanes: 8},
	kernel.AVX512:  {Rows: maxTileRows, cols: maxTileCols, Lanes: 16},
}

// TileOf is the tile of vectors of so many lanes: those of the active level, or eight, which every level with vectors has.
func TileOf(lanes int) TileShape {
	if lanes < kernel.Lanes() {
		return TileShapes[kernel.AVX2]
	}
	return TileShapes[kernel.Current()]
}

// Run computes a tile of the given height, or several. Of few rows, several are computed at a time, because the sums of one
// wait for each other; they are the same sums.
func (s TileShape) Run(rows int, t *Tile) {
	if rows <= len(together) && t.Count >= together[rows-1] {
		s.runTogether(rows, t)
		if t.Count == 0 {
			return
		}
	}
	s.runTiles(rows, t)
}

// together is how many tiles of one and of two rows runTogether computes at a time, as gen/gemm/gemm.go says.
var together = [2]int{4, 2}

// Mask is the first n lanes of the tile's vectors.
func (s TileShape) Mask(n int) kernel.Mask {
	if s.Lanes == kernel.Block {
		return kernel.FirstLanes(n)
	}
	return kernel.FirstOfEight(n)
}

// shapeOf is the tile for element type T at the active level.
func shapeOf[T kernel.Float]() TileShape {
	if kernel.Is32[T]() {
		return TileShapes[kernel.Current()]
	}
	return TileShapes[kernel.Generic]
}

// EvenRows splits m rows into panels of at most most rows whose heights differ little.
func EvenRows(m, most int) int {
	panels := (m + most - 1) / most
	return (m + panels - 1) / panels
}

// PackVectors copies k rows of so many vectors to panels of one vector each, which begin next
// elements apart; stride, between rows of src, is elements, and so is ahead, the distance of what is
// packed later, and prefetched.
func PackVectors(k, vectors int, src *float32, stride, ahead int, dst *float32, next int) {
	vecPackVectors(k, vectors, src, 4*stride, 4*ahead, dst, 4*next)
}

// TransposeStrided writes a matrix of rows×cols as one of cols×rows by vectors of so many lanes. Rows lie so many elements
// apart in src, and in dst. It writes whole vectors of rows, which may run into the next row of dst, and whole vectors of
// columns: up to a vector less one of rows more.
func TransposeStrided(lanes, rows, cols int, src []float32, from int, dst []float32, to int) {
	tail := TileOf(lanes).Mask((cols-1)%lanes + 1)
	for i := (rows - 1) / lanes * lanes; i >= 0; i -= lanes { // what is written too much belongs to rows before
		packAcross(lanes, min(lanes, rows-i), &src[i*from], 4*from, cols, tail, &dst[i], 4*to)
	}
}

// FetchRows prefetches so many elements of each row, which lie stride apart, ahead elements behind src.
func FetchRows(rows, elems int, src *float32, ahead, stride int) {
	vecFetchRows(rows, kernel.CeilDiv(elems, kernel.Block), src, 4*ahead, 4*stride)
}

// PackAlong copies the lanes of n of k rows; stride and step, between rows of src and
// of dst, are bytes.
func PackAlong(k int, src *float32, stride int, n kernel.Mask, dst *float32, step int) {
	vecPackAlong(k, src, stride, n, dst, step)
}
