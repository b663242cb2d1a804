package gemm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// finishCase is a product with all that can follow it.
type finishCase struct {
	m, n, k        int
	transA, transB bool
	beta           float64
	bias, relu     bool
	gate           bool
	pad            int // elements between the rows of each matrix
}

func (c finishCase) String() string {
	return fmt.Sprintf("%d×%d×%d trans %v %v beta %v bias %v relu %v gate %v pad %d", c.m, c.n, c.k, c.transA, c.transB, c.beta, c.bias, c.relu, c.gate, c.pad)
}

func testFinish[T kernel.Float](t *testing.T, c finishCase, tol float64) {
	t.Helper()
	lda, ldb, ldc := c.k+c.pad, c.n+c.pad, c.n+c.pad
	sizeA, sizeB := c.m*lda, c.k*ldb
	if c.transA {
		lda = c.m + c.pad
		sizeA = c.k * lda
	}
	if c.transB {
		ldb = c.k + c.pad
		sizeB = c.n * ldb
	}
	a, b, y := kerneltest.Random[T](1, sizeA), kerneltest.Random[T](2, sizeB), kerneltest.Random[T](3, c.m*ldc)
	f := Finish[T]{ReLU: c.relu}
	if c.bias {
		f.Bias = kerneltest.Random[T](4, c.n)
	}
	if c.gate {
		f.Gate = kerneltest.Random[T](5, c.m*ldc)
		f.Gate[0], f.Gate[len(f.Gate)/2] = T(math.NaN()), 0
	}
	want := append([]T(nil), y...)
	gemmRef(c.transA, c.transB, c.m, c.n, c.k, 1, a, lda, b, ldb, T(c.beta), want, ldc)
	f.apply(c.m, c.n, want, ldc)
	if c.beta == 0 { // C is not read
		for i := range c.m {
			elementwise.Fill(y[i*ldc:][:c.n], T(math.NaN()))
		}
	}
	GemmFinish(c.transA, c.transB, c.m, c.n, c.k, 1, a, lda, b, ldb, T(c.beta), y, ldc, f, kerneltest.Poisoned[T](GemmScratch(c.m, c.n, c.k)))
	kerneltest.CloseTo(t, c.String(), y, want, tol)
}

// Every form of a product, with what follows it, over shapes around the edges of
// tiles and blocks; elements between rows stay as they are.
func TestGemmFinish(t *testing.T) {
	sizes := [][3]int{{1, 1, 1}, {5, 17, 3}, {33, 15, 4}, {64, 10, 21}, {50, 47, 300}, {130, 40, 30}, {18, 29, 1100}, {3, 9, 2050}}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for i, s := range sizes {
			for bits := range 64 {
				c := finishCase{
					m: s[0], n: s[1], k: s[2], transA: bits&1 > 0, transB: bits&2 > 0, beta: float64(bits >> 2 & 1),
					bias: bits&8 > 0, relu: bits&16 > 0, gate: bits&32 > 0, pad: i % 3,
				}
				testFinish[float32](t, c, 5e-4)
				if bits%8 == i {
					testFinish[float64](t, c, 1e-11)
				}
			}
		}
		testFinish[float32](t, finishCase{m: 34, n: 30, k: 1024, transB: true, bias: true}, 5e-4) // rows a page apart
		testFinish[float32](t, finishCase{m: 2, n: 2100, k: 40, transB: true, relu: true}, 5e-4)
		testFinish[float32](t, finishCase{m: 2100, n: 3, k: 40, transB: true, relu: true}, 5e-4)
		for i := range 8 { // a B and a C that are not in the L2 cache, in several blocks
			c := finishCase{m: 70, n: 1100, k: 300, transA: i&1 > 0, gate: i&2 > 0, pad: 3}
			if i&4 > 0 {
				c.m, c.n, c.beta = 530, 510, 1
			}
			testFinish[float32](t, c, 5e-4)
		}
		testFinish[float32](t, finishCase{m: 530, n: 510, k: 60, transA: true, bias: true}, 5e-4)
	})
}

// What is not finite spreads over its row or column and no further; ReLU lets NaN through.
func TestGemmFinishNotFinite(t *testing.T) {
	const m, n, k = 40, 37, 20
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			for bits := range 4 {
				transA, transB := bits&1 > 0, bits&2 > 0
				a, b, c, bias := kerneltest.Random[float32](1, m*k), kerneltest.Random[float32](2, k*n), make([]float32, m*n), make([]float32, n)
				lda, ldb, at := k, n, 7*k+3
				if transA {
					lda, at = m, 3*m+7
				}
				if transB {
					ldb = k
				}
				a[at], bias[5] = float32(v), float32(math.NaN())
				GemmFinish(transA, transB, m, n, k, 1, a, lda, b, ldb, 0, c, n, Finish[float32]{Bias: bias, ReLU: true}, kerneltest.Poisoned[float32](GemmScratch(m, n, k)))
				for i, x := range c {
					if row, col := i/n, i%n; x != x != (col == 5 || row == 7 && v != v) {
						t.Fatalf("with %v, trans %v %v: row %d column %d is %v", v, transA, transB, row, col, x)
					}
				}
			}
		})
	}
}

func TestGemmFinishDoesNotAllocate(t *testing.T) {
	a, scratch, bias := kerneltest.Random[float32](1, 64*64), kerneltest.Poisoned[float32](GemmScratch(64, 64, 64)), kerneltest.Random[float32](2, 64)
	c := make([]float32, 64*64)
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if n := testing.AllocsPerRun(10, func() {
			GemmFinish(false, true, 64, 64, 64, 1, a, 64, a, 64, 0, c, 64, Finish[float32]{Bias: bias, ReLU: true}, scratch)
			GemmFinish(false, false, 64, 64, 64, 1, a, 64, a, 64, 0, c, 64, Finish[float32]{Gate: a}, scratch)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// A column of C has the same bits beside few others, whose product is computed as its transpose, and beside many: threads
// share columns.
func TestFewColumnsHaveTheBitsOfMany(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, s := range [][3]int{{17, 1, 5}, {64, 8, 300}, {40, 5, 1100}, {33, 7, 16}, {48, 12, 40}, {30, 20, 600}} {
			m, few, k, many := s[0], s[1], s[2], 40
			a, b := kerneltest.Random[float32](1, k*m), kerneltest.Random[float32](2, k*many)
			for _, beta := range []float32{0, 1} {
				got, want := kerneltest.Random[float32](3, m*many), kerneltest.Random[float32](3, m*many)
				scratch := kerneltest.Exactly[float32](GemmScratch(m, few, k))
				if n := testing.AllocsPerRun(1, func() {
					copy(got, want)
					Gemm(true, false, m, few, k, 1, a, m, b, many, beta, got, many, scratch.Room)
				}); n != 0 {
					t.Errorf("%v: %v allocations", s, n)
				}
				scratch.Check(t, fmt.Sprint(s))
				Gemm(true, false, m, many, k, 1, a, m, b, many, beta, want, many, kerneltest.Poisoned[float32](GemmScratch(m, many, k)))
				for i := range m {
					kerneltest.SameBits(t, fmt.Sprintf("%v, row %d", s, i), got[i*many:][:few], want[i*many:][:few])
				}
			}
		}
	})
}

// A row of C has the same bits beside few others and beside many: the last batch is short. What lies between rows stays.
func TestFewRowsHaveTheBitsOfMany(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, s := range [][2]int{{1, 5}, {2, 40}, {4, 16}, {3, 17}, {4, 1100}, {7, 530}, {5, 33}, {6, 3}, {6, 34}, {7, 60}, {8, 64}, {8, 1}, {8, 523}, {9, 31}, {40, 4}, {64, 16}, {33, 21}} {
			for bits := range 16 {
				c := finishCase{n: s[0], k: s[1], transB: bits&1 > 0, beta: float64(bits >> 1 & 1), bias: bits&4 > 0, relu: bits&8 > 0, pad: 3}
				if c.transB || !c.bias { // other forms add a bias in the end
					testFewRows(t, c)
				}
			}
		}
	})
}

// testFewRows compares products with some rows of A with one of many.
func testFewRows(t *testing.T, c finishCase) {
	t.Helper()
	const many = 101
	lda, ldb, ldc := c.k+c.pad, c.n+c.pad, c.n+c.pad
	if c.transB {
		ldb = c.k + c.pad
	}
	a, b, y := kerneltest.Random[float32](1, many*lda), kerneltest.Random[float32](2, max(c.n, c.k)*ldb), kerneltest.Random[float32](3, many*ldc)
	f := Finish[float32]{ReLU: c.relu}
	if c.bias {
		f.Bias = kerneltest.Random[float32](4, c.n)
	}
	of := func(m int) []float32 {
		c.m = m
		what := c.String()
		scratch, got := kerneltest.Exactly[float32](GemmScratch(m, c.n, c.k)), slices.Clone(y[:m*ldc])
		GemmFinish(false, c.transB, m, c.n, c.k, 1, a, lda, b, ldb, float32(c.beta), got, ldc, f, scratch.Room)
		scratch.Check(t, what)
		for i := range m {
			kerneltest.SameBits(t, what, got[i*ldc+c.n:(i+1)*ldc], y[i*ldc+c.n:(i+1)*ldc])
		}
		return got
	}
	want := of(many)
	for _, few := range []int{1, 7, 16, 39, 100} {
		kerneltest.SameBits(t, c.String(), of(few), want[:few*ldc])
	}
}

// Products with the first of packed rows have Gemm's bits, and leave what lies beside them.
func TestMulPackedHasTheBitsOfGemm(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("rows are packed for vectors")
		}
		for _, k := range []int{1, 7, 32, 64, 600} {
			const rows, lda, most = 61, 700, 70
			b, a := kerneltest.Random[float32](1, rows*k), kerneltest.Random[float32](2, 20*lda)
			packed := kerneltest.Poisoned[float32](PackedElems(rows, k))
			PackRows(rows, k, b, k, packed)
			for _, m := range []int{1, 6, 16, 19} {
				for _, n := range []int{1, 8, 13, 16, 17, 32, 33, 48, rows} {
					want, got := kerneltest.Random[float32](3, m*most), kerneltest.Random[float32](3, m*most)
					Gemm(false, true, m, n, k, 1, a, lda, b, k, 0, want, most, kerneltest.Poisoned[float32](GemmScratch(m, n, k)))
					MulPacked(m, n, k, a, lda, packed, rows, got, most)
					kerneltest.SameBits(t, fmt.Sprintf("%dx%dx%d", m, n, k), got, want)
				}
			}
		}
	})
}

// Few rows of a product have the same bits where B is so large that it is packed and where it is taken as it lies.
func TestLargeFactorsArePacked(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		const m, k, few = 21, 530, 96
		n := packMany/k + 5
		a, b := kerneltest.Random[float32](1, m*k), kerneltest.Random[float32](2, k*n)
		got, want := make([]float32, m*n), make([]float32, m*few)
		Gemm(false, false, m, n, k, 1, a, k, b, n, 0, got, n, kerneltest.Poisoned[float32](GemmScratch(m, n, k)))
		for j := 0; j+few <= n; j += few {
			Gemm(false, false, m, few, k, 1, a, k, b[j:], n, 0, want, few, kerneltest.Poisoned[float32](GemmScratch(m, few, k)))
			for i := range m {
				if !slices.Equal(got[i*n+j:][:few], want[i*few:][:few]) {
					t.Fatalf("row %d, columns from %d on: other bits than those of a product of %d columns", i, j, few)
				}
			}
		}
	})
}

// A matrix that lies as if packed is packed where its rows share few sets of the L1 cache, and not where they do not; either way the
// sums are those of its transpose.
func TestColumnsPackedOrNotHaveTheSameBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		const n, k = 300, 70
		for _, c := range []struct {
			m     int
			stays bool
		}{{512, false}, {256, false}, {384, false}, {96, true}, {130, true}} {
			if stays(k, c.m) != c.stays {
				t.Errorf("%d rows %d elements apart stay in L1: %v", k, c.m, !c.stays)
			}
			a, b := kerneltest.Random[float32](1, k*c.m), kerneltest.Random[float32](2, k*n)
			turned := make([]float32, len(a))
			for i := range c.m {
				for l := range k {
					turned[i*k+l] = a[l*c.m+i]
				}
			}
			got, want := make([]float32, c.m*n), make([]float32, c.m*n)
			scratch := kerneltest.Poisoned[float32](GemmScratch(c.m, n, k))
			Gemm(true, false, c.m, n, k, 1, a, c.m, b, n, 0, got, n, scratch)
			Gemm(false, false, c.m, n, k, 1, turned, k, b, n, 0, want, n, scratch)
			if !slices.Equal(got, want) {
				t.Errorf("%d rows of A: other bits than its transpose", c.m)
			}
		}
	})
}
