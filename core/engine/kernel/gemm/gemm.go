package gemm

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Gemm computes C = alpha·op(A)·op(B) + beta·C, where op(A) is m×k and op(B) is
// k×n; transA says that a holds the k×m transpose, transB likewise. Matrices are
// row-major and lda, ldb, ldc their row strides. With beta 0, C is not read, so
// NaN in it does not survive. The scratch holds GemmScratch(m, n, k) elements.
// The layout follows BLAS's gemm.
func Gemm[T kernel.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int, scratch []T) {
	GemmFinish(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, Finish[T]{}, scratch)
}

// GemmFinish is Gemm with what f says done to C afterwards, in the same pass where
// there is a kernel for it.
func GemmFinish[T kernel.Float](transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int, f Finish[T], scratch []T) {
	checkMatrix("A", transA, m, k, lda, len(a))
	checkMatrix("B", transB, k, n, ldb, len(b))
	checkMatrix("C", false, m, n, ldc, len(c))
	if beta != 0 || k == 0 || alpha == 0 {
		scaleC(m, n, beta, c, ldc)
	}
	if m == 0 || n == 0 || k == 0 || alpha == 0 {
		f.apply(m, n, c, ldc)
		return
	}
	g := gemmCall[T]{
		TileShape: shapeOf[T](), m: m, n: n, k: k, alpha: alpha,
		a: strided[T]{a, lda, 1}, b: strided[T]{b, ldb, 1}, c: c, ldc: ldc, add: beta != 0,
	}
	if transA {
		g.a.row, g.a.col = 1, lda
	}
	if transB {
		g.b.row, g.b.col = 1, ldb
	}
	if kernel.HasVectors[T]() {
		p := asProduct(&g, f)
		p.run(kernel.As32(scratch))
		return
	}
	g.run(scratch)
	f.apply(m, n, c, ldc)
}

// GemmScratch is the number of scratch elements that Gemm needs for these
// dimensions at the active level.
func GemmScratch(m, n, k int) int {
	along := min(k, BlockK) * (min(m, blockM) + min(n, blockN) + maxTileCols)
	if kernel.Current() == kernel.Generic {
		return along + 2*packSlack
	}
	across := min(k, deepest) * (min(max(m, n), blockN) + maxTileCols)
	return max(along, across) + 2*packSlack + turnedScratch(m, n)
}

func checkMatrix(name string, trans bool, rows, cols, ld, have int) {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return
	}
	if need := (rows-1)*ld + cols; ld < cols || have < need {
		panic(fmt.Sprintf("gemm.Gemm: %s is %d×%d with row stride %d: %d elements given", name, rows, cols, ld, have))
	}
}

// scaleC leaves beta·C in C: zeros for 0, whatever C held.
func scaleC[T kernel.Float](m, n int, beta T, c []T, ldc int) {
	if beta == 1 {
		return
	}
	for i := range m {
		row := c[i*ldc:][:n]
		if beta == 0 {
			clear(row)
		} else {
			elementwise.Scale(row, beta)
		}
	}
}
