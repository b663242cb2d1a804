package gemm

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Products of bfloat16 matrices with float32 sums, two to a lane: VDPBF16PS adds
// x[2l]·y[2l] + x[2l+1]·y[2l+1] to a float32. It takes subnormal numbers for
// zeros and rounds each sum to nearest even without regard for MXCSR, which
// moves a result by less than 2⁻¹²⁶ for each product. NEON's BFDOT does the same, but rounds
// the sum of both products, and then that with the float32, to odd.
//
// A packed panel holds pairs of bfloat16 where Gemm's holds float32, so that the
// micro-kernels of both differ in one instruction (gen/gemm/gemm.go).

// matrix16 is a matrix of bfloat16 of any element order: element (i, j) is at i·row + j·col.
type matrix16 struct {
	data     []uint16
	row, col int
}

// GemmBF16 computes C = op(A)·op(B), or adds it to C, as Gemm does: A and B are
// bfloat16, C is float32. The scratch holds GemmBF16Scratch(m, n, k) elements.
func GemmBF16(transA, transB bool, m, n, k int, a []uint16, lda int, b []uint16, ldb int, c []float32, ldc int, scratch []float32, accumulate bool) {
	checkMatrix("A", transA, m, k, lda, len(a))
	checkMatrix("B", transB, k, n, ldb, len(b))
	checkMatrix("C", false, m, n, ldc, len(c))
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		if !accumulate {
			scaleC(m, n, 0, c, ldc)
		}
		return
	}
	if !kernel.HasBF16Products() {
		gemmWidened(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, scratch, accumulate)
		return
	}
	g := gemmPairs{
		m: m, n: n, k: k, c: c, ldc: ldc, add: accumulate,
		a: matrix16{a, lda, 1}, b: matrix16{b, 1, ldb}, // both with the pairs' direction last
	}
	if transA {
		g.a.row, g.a.col = 1, lda
	}
	if transB {
		g.b.row, g.b.col = ldb, 1
	}
	g.run(scratch)
}

// GemmBF16Scratch is the number of scratch elements that GemmBF16 needs for these dimensions.
func GemmBF16Scratch(m, n, k int) int {
	if !kernel.HasBF16Products() {
		return m*k + k*n + GemmScratch(m, n, k)
	}
	if kernel.HasTiles() {
		return tilesScratch(m, n, k)
	}
	return GemmScratch(m, n, kernel.CeilDiv(k, 2))
}

// gemmWidened is the definition of GemmBF16: the product of what the elements are as
// float32.
func gemmWidened(transA, transB bool, m, n, k int, a []uint16, lda int, b []uint16, ldb int, c []float32, ldc int, scratch []float32, accumulate bool) {
	wideA, scratch := widenMatrix(transA, m, k, a, lda, scratch)
	wideB, scratch := widenMatrix(transB, k, n, b, ldb, scratch)
	beta := float32(0)
	if accumulate {
		beta = 1
	}
	Gemm(transA, transB, m, n, k, 1, wideA.data, wideA.row, wideB.data, wideB.row, beta, c, ldc, scratch)
}

// widenMatrix copies a matrix to the front of scratch, without gaps between its rows,
// and gives the rest of scratch back.
func widenMatrix(trans bool, rows, cols int, x []uint16, ld int, scratch []float32) (strided[float32], []float32) {
	if trans {
		rows, cols = cols, rows
	}
	wide := scratch[:rows*cols]
	for i := range rows {
		to := wide[i*cols:][:cols]
		for j, h := range x[i*ld:][:cols] {
			to[j] = kernel.FactorBF16(h)
		}
	}
	return strided[float32]{data: wide, row: cols, col: 1}, scratch[rows*cols:]
}

// gemmPairs is one product; b is transposed, [n, k].
type gemmPairs struct {
	m, n, k int
	a, b    matrix16
	c       []float32
	ldc     int
	add     bool
}

// run is gemmCall.run over pairs.
func (g *gemmPairs) run(scratch []float32) {
	if kernel.HasTiles() {
		g.runTiles(scratch)
		return
	}
	s, pairs := TileShapes[kernel.Current()], kernel.CeilDiv(g.k, 2)
	height := EvenRows(g.m, s.Rows)
	mc := blockRows(g.m, g.n, min(g.m, blockM/height*height), height, tallRows)
	depth := EvenRows(pairs, BlockK)
	packedA := scratch[:depth*mc+packSlack]
	packedB := scratch[len(packedA):]
	for j := 0; j < g.n; j += blockN {
		nc := min(blockN, g.n-j)
		for l := 0; l < pairs; l += depth {
			kc := min(depth, pairs-l)
			g.b.pack(s, j, 2*l, nc, g.k, kc, s.cols, packedB)
			for i := 0; i < g.m; i += mc {
				rows := min(mc, g.m-i)
				g.a.pack(s, i, 2*l, rows, g.k, kc, height, packedA)
				g.block(s, rows, nc, kc, height, packedA, packedB, g.c[i*g.ldc+j:], g.add || l > 0)
			}
		}
	}
}

// block multiplies a packed block of A with a packed block of B.
func (g *gemmPairs) block(s TileShape, m, n, pairs, height int, a, b, c []float32, add bool) {
	for j := 0; j < n; j += s.cols {
		cols := min(s.cols, n-j)
		for i := 0; i < m; i += height {
			rows := min(height, m-i)
			t := Tile{
				K: pairs, A: &a[i*pairs], B0: &b[j*pairs], B1: &b[j*pairs+s.Lanes], Off: &pairOffsets[kernel.Current()][0],
				C0: &c[i*g.ldc+j], C1: &c[i*g.ldc+j], Ldc: 4 * g.ldc, N0: kernel.FirstLanes(min(cols, s.Lanes)), N1: kernel.FirstLanes(max(cols-s.Lanes, 0)),
			}
			if cols > s.Lanes {
				t.C1 = &c[i*g.ldc+j+s.Lanes]
			}
			if add {
				t.Add = 1
			}
			runPairTile(rows, &t)
		}
	}
}

// pairOffsets are the byte offsets of the rows of a packed panel of B at each level.
var pairOffsets = func() (t [len(TileShapes)][BlockK]int32) {
	for level := range t {
		for i := range t[level] {
			t[level][i] = int32(4 * TileShapes[level].cols * i)
		}
	}
	return t
}()

// pack copies rows [i, i+m) of columns from l on, as panels of height rows: pairs
// groups of one pair of neighbours in a row per row. Beyond column k are zeros. A panel as
// high as the tile is wide is filled up; others are as high as the rows that are left.
func (a matrix16) pack(s TileShape, i, l, m, k, pairs, height int, dst []float32) {
	for p := 0; p < m; p += height {
		rows := min(height, m-p)
		step := rows
		if height == s.cols {
			step = height
		}
		for part := 0; part < rows; part += s.Lanes {
			a.packLanes(i+p+part, l, min(s.Lanes, rows-part), k, pairs, step, dst[p*pairs+part:])
		}
	}
}

// PackPairPanels packs a matrix of bfloat16, of m rows and an even number k of columns, for RunRoundedTile: element (i, j)
// is src[i·row+j·col], and one of row and col is 1. A panel has height rows, the last those that are left; it holds the pairs
// of neighbours in a row column by column. dst has PairPanelElems(m, k) elements.
func PackPairPanels(src []uint16, row, col, m, k, height int, dst []float32) {
	matrix16{src, row, col}.pack(TileShapes[kernel.Current()], 0, 0, m, k, k/2, height, dst)
}

// PairPanelElems is the room for such panels, with what the last store of each may write behind it.
func PairPanelElems(m, k int) int { return m*k/2 + packSlack }

// packLanes copies up to a vector of rows of pairs, step pairs apart. Its last store may
// reach a vector less one pair beyond them.
func (a matrix16) packLanes(i, l, rows, k, pairs, step int, dst []float32) {
	full := min(pairs, (k-l)/2)
	if full > 0 {
		from := &a.data[i*a.row+l*a.col]
		if a.col == 1 {
			vecPackAcross(rows, (*float32)(unsafe.Pointer(from)), 2*a.row, full, kernel.FirstLanes((full-1)%kernel.Lanes()+1), &dst[0], 4*step)
		} else {
			PackPairs(full, from, &a.data[i*a.row+(l+1)*a.col], 4*a.col, rows, &dst[0], 4*step)
		}
	}
	if full < pairs { // an odd last column has a zero for its neighbour
		last := dst[full*step:]
		for r := range rows {
			last[r] = math.Float32frombits(uint32(a.data[(i+r)*a.row+(l+2*full)*a.col]))
		}
	}
}
