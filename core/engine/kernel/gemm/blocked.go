package gemm

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// The blocks of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008): a panel of B of blockK rows stays in the L1 cache, a
// block of A of blockM×blockK in L2, a block of B of blockK×blockN in L3.
const (
	BlockK = 256
	blockM = 16 * maxTileRows
	blockN = 64 * maxTileCols
)

// packSlack is what packing may write beyond the end of the last panel.
const packSlack = kernel.Block * maxTileCols

// A C that is not in the L2 cache is written by fewer rows at a time, a panel of columns after the other: its rows are that many streams, which
// hardware follows if they are few.
const (
	bigC     = 1 << 18 // elements of such a C
	tallRows = 56      // of it
	flatRows = 28      // if sums are so short that the next panel's are soon written
	shortSum = 64      // of k in such a sum
)

// blockRows is how many rows of a C of m×n are worked on at once, in tiles of a height: at most most if C is big, and block otherwise, or if all
// rows are a single block.
func blockRows(m, n, block, height, most int) int {
	if m > block && m*n > bigC {
		return min(block, max(1, most/height)*height)
	}
	return block
}

// strided is a matrix of any element order: element (i, j) is at i·row + j·col.
type strided[T kernel.Float] struct {
	data     []T
	row, col int
}

type gemmCall[T kernel.Float] struct {
	TileShape
	m, n, k int
	alpha   T
	a, b    strided[T]
	c       []T
	ldc     int
	add     bool
}

func (g *gemmCall[T]) run(scratch []T) {
	height, mc, depth, packedA, packedB := cut(g.m, g.k, g.Rows, scratch)
	for j := 0; j < g.n; j += blockN {
		nc := min(blockN, g.n-j)
		for l := 0; l < g.k; l += depth {
			kc := min(depth, g.k-l)
			packB(g.b, l, j, kc, nc, g.cols, packedB)
			for i := 0; i < g.m; i += mc {
				rows := min(mc, g.m-i)
				packA(g.a, i, l, rows, kc, height, g.alpha, packedA)
				g.block(rows, nc, kc, height, packedA, packedB, g.c[i*g.ldc+j:], g.add || l > 0)
			}
		}
	}
}

// cut divides A into blocks of mc rows, in panels of height rows, and of depth columns,
// and scratch into room for a packed block of A and one of B.
func cut[T any](m, k, tileRows int, scratch []T) (height, mc, depth int, a, b []T) {
	height, depth = EvenRows(m, tileRows), EvenRows(k, BlockK)
	mc = min(m, blockM/height*height)
	n := depth*mc + packSlack
	return height, mc, depth, scratch[:n], scratch[n:]
}

// block multiplies a packed block of A with a packed block of B.
func (g *gemmCall[T]) block(m, n, k, height int, a, b, c []T, add bool) {
	for j := 0; j < n; j += g.cols {
		cols := min(g.cols, n-j)
		for i := 0; i < m; i += height {
			rows := min(height, m-i)
			pa, pb, pc := a[i*k:][:rows*k], b[j*k:][:g.cols*k], c[i*g.ldc+j:]
			goTile(k, rows, cols, pa, pb, pc, g.ldc, add)
		}
	}
}

// packA copies m×k elements of alpha·A from (i, l) as panels of height rows, each k
// groups of one value per row. The last panel is as high as the rows that are left.
func packA[T kernel.Float](a strided[T], i, l, m, k, height int, alpha T, dst []T) {
	for p := 0; p < m; p += height {
		rows := min(height, m-p)
		panel := dst[p*k:][:rows*k]
		for r := range rows {
			src := a.data[(i+p+r)*a.row+l*a.col:]
			for x, at := r, 0; x < len(panel); x, at = x+rows, at+a.col {
				panel[x] = alpha * src[at]
			}
		}
	}
}

// packB copies k×n elements of B from (l, j) as panels of cols columns, filled up with zeros.
func packB[T kernel.Float](b strided[T], l, j, k, n, cols int, dst []T) {
	for p := 0; p < n; p += cols {
		panel, width := dst[p*k:][:cols*k], min(cols, n-p)
		if width < cols {
			clear(panel)
		}
		src := b.data[l*b.row+(j+p)*b.col:]
		if b.col == 1 {
			for x := range k {
				copy(panel[x*cols:][:width], src[x*b.row:])
			}
			continue
		}
		for c := range width {
			for x, at := c, c*b.col; x < len(panel); x, at = x+cols, at+b.row {
				panel[x] = src[at]
			}
		}
	}
}

// goTile is the micro-kernel in plain Go: up to 2×3 sums, as many as the compiler
// keeps in registers together with their products.
func goTile[T kernel.Float](k, rows, cols int, a, b, c []T, ldc int, add bool) {
	var sums [6]T
	if rows == 2 {
		goTile2(k, a, b, &sums)
	} else {
		goTile1(k, a, b, &sums)
	}
	for r := range rows {
		row := c[r*ldc:][:cols]
		for j := range row {
			if add {
				row[j] += sums[3*r+j]
			} else {
				row[j] = sums[3*r+j]
			}
		}
	}
}

func goTile2[T kernel.Float](k int, a, b []T, out *[6]T) {
	var s0, s1, s2, t0, t1, t2 T
	rows := groups[[2]T](a, k)
	cols := groups[[3]T](b, k)[:len(rows)]
	for l := range rows {
		x, y, v := rows[l][0], rows[l][1], &cols[l]
		s0 += x * v[0]
		s1 += x * v[1]
		s2 += x * v[2]
		t0 += y * v[0]
		t1 += y * v[1]
		t2 += y * v[2]
	}
	*out = [6]T{s0, s1, s2, t0, t1, t2}
}

func goTile1[T kernel.Float](k int, a, b []T, out *[6]T) {
	var s0, s1, s2 T
	a = a[:k]
	cols := groups[[3]T](b, k)[:len(a)]
	for l, x := range a {
		v := &cols[l]
		s0 += x * v[0]
		s1 += x * v[1]
		s2 += x * v[2]
	}
	*out = [6]T{s0, s1, s2}
}

// groups views a packed panel as k arrays, which spares the loop its bounds checks.
func groups[G, T any](x []T, k int) []G {
	var g G
	_ = x[:k*int(unsafe.Sizeof(g)/unsafe.Sizeof(x[0]))]
	return unsafe.Slice((*G)(unsafe.Pointer(unsafe.SliceData(x))), k)
}
