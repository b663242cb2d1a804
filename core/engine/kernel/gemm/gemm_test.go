package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// layout has room between the rows of each matrix.
func layout(m, n, k int, transA, transB bool) (lda, ldb, ldc, sizeA, sizeB int) {
	lda, ldb, ldc = k+3, n+1, n+2
	sizeA, sizeB = m*lda, k*ldb
	if transA {
		lda = m + 3
		sizeA = k * lda
	}
	if transB {
		ldb = k + 1
		sizeB = n * ldb
	}
	return lda, ldb, ldc, sizeA, sizeB
}

func testGemm[T kernel.Float](t *testing.T, m, n, k int, transA, transB bool, alpha, beta T, tol float64) {
	t.Helper()
	lda, ldb, ldc, sizeA, sizeB := layout(m, n, k, transA, transB)
	a, b, c := kerneltest.Random[T](1, sizeA+1), kerneltest.Random[T](2, sizeB+1), kerneltest.Random[T](3, m*ldc+1)
	if beta == 0 {
		for i := range c {
			c[i] = T(math.NaN())
		}
	}
	want := append([]T(nil), c...)
	gemmRef(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, want, ldc)
	Gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, kerneltest.Poisoned[T](GemmScratch(m, n, k)))
	kerneltest.CloseTo(t, fmt.Sprintf("%d×%d×%d trans %v %v alpha %v beta %v", m, n, k, transA, transB, alpha, beta), c, want, tol)
}

func TestGemmAgainstReference(t *testing.T) {
	sizes := [][3]int{{0, 3, 3}, {3, 0, 3}, {3, 3, 0}, {1, 1, 1}, {2, 31, 3}, {14, 32, 7}, {15, 33, 9}, {16, 49, 25}, {17, 5, 300}, {29, 100, 257}, {225, 17, 11}, {6, 2060, 5}}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, s := range sizes {
			for i := range 4 {
				testGemm[float32](t, s[0], s[1], s[2], i&1 > 0, i&2 > 0, 1, 0, 1e-4)
				testGemm[float32](t, s[0], s[1], s[2], i&1 > 0, i&2 > 0, 0.5, 1, 1e-4)
				testGemm[float32](t, s[0], s[1], s[2], i&1 > 0, i&2 > 0, 0, 2, 1e-4)
				testGemm[float64](t, s[0], s[1], s[2], i&1 > 0, i&2 > 0, 2, -1, 1e-12)
			}
		}
	})
}

// Every height of tile, and every number of columns in it.
func TestGemmTileEdges(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for m := 1; m <= 15; m++ {
			for n := 1; n <= 33; n++ {
				testGemm[float32](t, m, n, 5, false, false, 1, 1, 1e-5)
			}
		}
	})
}

func TestGemmPassesNaN(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		a, b, c := kerneltest.Random[float32](1, 20*8), kerneltest.Random[float32](2, 8*40), make([]float32, 20*40)
		a[3*8+2] = float32(math.NaN())
		Gemm(false, false, 20, 40, 8, 1, a, 8, b, 40, 0, c, 40, kerneltest.Poisoned[float32](GemmScratch(20, 40, 8)))
		for i, v := range c {
			if (v != v) != (i/40 == 3) {
				t.Fatalf("row %d has %v", i/40, v)
			}
		}
	})
}

func TestGemmDoesNotAllocate(t *testing.T) {
	a, scratch := kerneltest.Random[float32](1, 64*64), kerneltest.Poisoned[float32](GemmScratch(64, 64, 64))
	c := make([]float32, 64*64)
	if n := testing.AllocsPerRun(10, func() { Gemm(false, true, 64, 64, 64, 1, a, 64, a, 64, 0, c, 64, scratch) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func benchGemm[T kernel.Float](b *testing.B, m, n, k int, transA, transB bool) {
	x, y, c := kerneltest.Random[T](1, m*k), kerneltest.Random[T](2, k*n), make([]T, m*n)
	lda, ldb := k, n
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	scratch := kerneltest.Poisoned[T](GemmScratch(m, n, k))
	for b.Loop() {
		Gemm(transA, transB, m, n, k, 1, x, lda, y, ldb, 0, c, n, scratch)
	}
	b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

func BenchmarkGemm(b *testing.B) {
	b.Run("f32/512", func(b *testing.B) { benchGemm[float32](b, 512, 512, 512, false, false) })
	b.Run("f32/512transB", func(b *testing.B) { benchGemm[float32](b, 512, 512, 512, false, true) })
	b.Run("f32/1024", func(b *testing.B) { benchGemm[float32](b, 1024, 1024, 1024, false, false) })
	b.Run("f32/fc64x10x1568", func(b *testing.B) { benchGemm[float32](b, 64, 10, 1568, false, true) })
	b.Run("f32/mlp64x512x784", func(b *testing.B) { benchGemm[float32](b, 64, 512, 784, false, true) })
	b.Run("f64/256", func(b *testing.B) { benchGemm[float64](b, 256, 256, 256, false, false) })
}

func TestMatrixOfTheWrongSizePanics(t *testing.T) {
	kerneltest.Panics(t, "B is 4×3 with row stride 2: 12 elements given", func() {
		Gemm(false, false, 2, 3, 4, 1, make([]float32, 8), 4, make([]float32, 12), 2, 0, make([]float32, 6), 3, nil)
	})
}

// TestAnyProductStaysInside has products of any size and layout beside pages that may not be touched.
func TestAnyProductStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		const room = 1 << 18
		g, r := kerneltest.NewGuardedRoom(t, 5, room), rand.New(rand.NewPCG(3, 9))
		for range kerneltest.Cases(1500) {
			size := func() int { return 1 + r.IntN([]int{4, 20, 70, 300}[r.IntN(4)]) }
			m, n, k, transA, transB := size(), size(), size(), r.IntN(2) == 0, r.IntN(2) == 0
			matrix := func(trans bool, rows, cols int) (line, elems int) {
				if trans {
					rows, cols = cols, rows
				}
				line = cols + r.IntN(2)*r.IntN(9)
				return line, (rows-1)*line + cols
			}
			lda, elemsA := matrix(transA, m, k)
			ldb, elemsB := matrix(transB, k, n)
			ldc, elemsC := matrix(false, m, n)
			sizes := []int{elemsC, n, elemsA, elemsB, GemmScratch(m, n, k)}
			if max(elemsA, elemsB, elemsC, sizes[4]) > room {
				continue
			}
			f := Finish[float32]{}
			beta := float32(r.IntN(2))
			biased := beta == 0 && r.IntN(2) == 0
			what := fmt.Sprintf("%d×%d×%d, transposed %t %t, rows %d %d %d apart, beta %g, bias %t", m, n, k, transA, transB, lda, ldb, ldc, beta, biased)
			g.Test(t, what, 1, sizes, func(v [][]float32, _ bool) {
				if biased {
					f.Bias = v[1]
				}
				GemmFinish(transA, transB, m, n, k, 1, v[2], lda, v[3], ldb, beta, v[0], ldc, f, v[4])
			})
		}
	})
}
