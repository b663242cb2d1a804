package gemm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

func testGemmBF16(t *testing.T, m, n, k int, transA, transB, accumulate bool) {
	t.Helper()
	lda, ldb, ldc, sizeA, sizeB := layout(m, n, k, transA, transB)
	a, wideA := kerneltest.ToBF16(kerneltest.Random[float32](1, sizeA+1))
	b, wideB := kerneltest.ToBF16(kerneltest.Random[float32](2, sizeB+1))
	c := kerneltest.Random[float32](3, m*ldc+1)
	want, beta := kerneltest.Widened(c), 1.0
	if !accumulate {
		beta = 0
		for i := range m {
			elementwise.Fill(c[i*ldc:][:n], float32(math.NaN()))
		}
	}
	gemmRef(transA, transB, m, n, k, 1, wideA, lda, wideB, ldb, beta, want, ldc)
	GemmBF16(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, kerneltest.Poisoned[float32](GemmBF16Scratch(m, n, k)), accumulate)
	kerneltest.CloseTo(t, fmt.Sprintf("%d×%d×%d trans %v %v add %v", m, n, k, transA, transB, accumulate), kerneltest.Widened(c), want, 1e-4)
}

func TestGemmBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atGemmBF16) }

func atGemmBF16(t *testing.T) {
	sizes := [][3]int{{0, 3, 3}, {3, 0, 3}, {3, 3, 0}, {1, 1, 1}, {2, 31, 3}, {14, 32, 7}, {15, 33, 9}, {16, 49, 25}, {17, 5, 300}, {29, 100, 513}, {225, 17, 11}, {6, 2060, 5}, {64, 10, 1568}, {31, 47, 1031}}
	for _, s := range sizes {
		for i := range 8 {
			testGemmBF16(t, s[0], s[1], s[2], i&1 > 0, i&2 > 0, i&4 > 0)
		}
	}
	for m := 1; m <= 15; m++ { // every height of tile, and every number of columns in it
		for n := 1; n <= 33; n++ {
			testGemmBF16(t, m, n, 5, m%2 > 0, n%2 > 0, true)
		}
	}
	for k := 1; k <= 70; k++ { // every length of a sum
		testGemmBF16(t, 3, 18, k, k&1 > 0, k&2 > 0, false)
	}
}

// Products in tiles are packed in the same way on CPUs that have AMX and on those where tiles are emulated.
func TestGemmBF16InTiles(t *testing.T) {
	kerneltest.NeedTiles(t)
	atGemmBF16(t)
}

// NaN and infinities pass; subnormal numbers count as zero, and sums below the normal range may.
func TestGemmBF16SpecialValues(t *testing.T) { kerneltest.AtBF16Levels(t, atGemmBF16SpecialValues) }

func atGemmBF16SpecialValues(t *testing.T) {
	inf, nan, tiny := float32(math.Inf(1)), float32(math.NaN()), float32(1e-39)
	for _, c := range []struct{ x, y, want float32 }{
		{nan, 1, nan}, {inf, 0, nan}, {inf, 2, inf}, {inf, -2, -inf}, {-inf, 2, -inf}, {tiny, 1, 0}, {-tiny, 1 << 20, 0},
		{0x1p-100, 0x1p-40, 0}, {0x1p-60, 0x1p-60, 0x1p-120}, {0x1p100, 0x1p100, inf}, {3, -5, -15},
	} {
		for _, odd := range []bool{false, true} { // either half of a pair
			a, _ := kerneltest.ToBF16([]float32{0, 0, 0})
			b, _ := kerneltest.ToBF16([]float32{1, 1, 1})
			i := map[bool]int{true: 1}[odd]
			a[i], b[i] = tensor.BF16FromF32(c.x), tensor.BF16FromF32(c.y)
			got := []float32{0}
			GemmBF16(false, true, 1, 1, 3, a, 3, b, 3, got, 1, kerneltest.Poisoned[float32](GemmBF16Scratch(1, 1, 3)), false)
			if math.Abs(float64(got[0]-c.want)) >= 0x1p-126 || (got[0] == got[0]) != (c.want == c.want) {
				t.Errorf("%v · %v is %v, want %v", c.x, c.y, got[0], c.want)
			}
		}
	}
}

// Rounding agrees with the reference but for subnormal numbers, which become
// zeros of their sign, at every length.
func TestFinishBF16Rounds(t *testing.T) { kerneltest.AtBF16Levels(t, atFinishBF16Rounds) }

func atFinishBF16Rounds(t *testing.T) {
	for _, x := range [][]float32{kerneltest.BorderPatterns(), kerneltest.Awkward(1, 200)} {
		for _, n := range []int{len(x), 1, 15, 16, 17, 63, 64, 65, 100, 130} {
			got := make([]uint16, n+1)
			got[n] = 77
			var f FinishBF16
			f.rows(1, n, x, got, n)
			if got[n] != 77 {
				t.Fatalf("%d elements: one more was written", n)
			}
			for i, v := range x[:n] {
				want := tensor.BF16FromF32(v)
				if math.Abs(float64(v)) < 0x1p-126 {
					want = 0 // of either sign: a sum with a zero that is not there
				}
				if got[i] != want && got[i] != want|0x8000 && !(v != v && got[i]&0x7fff > 0x7f80) {
					t.Fatalf("%d elements: %v (%#x) gives %#x, want %#x", n, v, math.Float32bits(v), got[i], want)
				}
			}
		}
	}
}

// Bias, ReLU and gate at every width, NaN included.
func TestFinishBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atFinishBF16) }

func atFinishBF16(t *testing.T) {
	const m, ld = 3, 40
	for n := range ld {
		x, bias := kerneltest.Awkward(uint64(n), m*n), kerneltest.Awkward(2, n)
		gate, wideGate := make([]uint16, m*ld), kerneltest.Awkward(3, m*ld)
		for i, v := range wideGate {
			gate[i] = tensor.BF16FromF32(v)
			wideGate[i] = tensor.F32FromBF16(gate[i])
		}
		for name, c := range map[string]struct {
			f    FinishBF16
			want func(i, j int) float32
		}{
			"bias": {FinishBF16{Bias: bias}, func(i, j int) float32 { return x[i*n+j] + bias[j] }},
			"relu": {FinishBF16{ReLU: true}, func(i, j int) float32 { return relu32(x[i*n+j]) }},
			"both": {FinishBF16{Bias: bias, ReLU: true}, func(i, j int) float32 { return relu32(x[i*n+j] + bias[j]) }},
			"gate": {FinishBF16{Gate: gate}, func(i, j int) float32 {
				if wideGate[i*ld+j] <= 0 {
					return 0
				}
				return x[i*n+j]
			}},
		} {
			y := make([]uint16, m*ld)
			c.f.rows(m, n, x, y, ld)
			for i := range m {
				for j := range ld {
					want := float32(0)
					if j < n {
						if want = c.want(i, j); math.Abs(float64(want)) < 0x1p-126 {
							want = 0
						}
					}
					if got := tensor.F32FromBF16(y[i*ld+j]); got != tensor.F32FromBF16(tensor.BF16FromF32(want)) && (got == got || want == want) {
						t.Fatalf("%s, %d columns: (%d, %d) is %v, want %v", name, n, i, j, got, want)
					}
				}
			}
		}
	}
}

// A product that is finished block by block is the product finished at once.
func TestGemmBF16Rounded(t *testing.T) { kerneltest.AtBF16Levels(t, atGemmBF16Rounded) }

func atGemmBF16Rounded(t *testing.T) {
	for number, s := range [][3]int{{0, 5, 3}, {3, 5, 0}, {1, 1, 1}, {15, 33, 9}, {29, 100, 513}, {finishRows(1<<20, 1500)*2 + 3, 1500, 3}, {31, 9000, 2}, {100, 10, 1568}, {33, 14, 7}, {finishRows(1<<20, 3) + 40, 3, 5}} {
		m, n, k := s[0], s[1], s[2]
		ldc := n + 3
		a, _ := kerneltest.ToBF16(kerneltest.Awkward(1, m*k+1))
		b, _ := kerneltest.ToBF16(kerneltest.Random[float32](2, n*k+1))
		gate, _ := kerneltest.ToBF16(kerneltest.Random[float32](3, m*ldc+1))
		for name, f := range map[string]FinishBF16{"plain": {}, "bias, relu": {Bias: kerneltest.Random[float32](4, n+1), ReLU: true}, "gate": {Gate: gate}} {
			for i := range 4 {
				if testing.Short() && m*n > 1<<14 && i != number%4 {
					continue // the blocks are those of any transposition
				}
				transA, transB := i&1 > 0, i&2 > 0
				lda, ldb := k, n
				if transA {
					lda = m
				}
				if transB {
					ldb = k
				}
				sums, want, got := make([]float32, m*n), make([]uint16, m*ldc), make([]uint16, m*ldc)
				GemmBF16(transA, transB, m, n, k, a, lda, b, ldb, sums, n, make([]float32, GemmBF16Scratch(m, n, k)), false)
				f.rows(m, n, sums, want, ldc)
				GemmBF16Rounded(transA, transB, m, n, k, a, lda, b, ldb, got, ldc, f, kerneltest.Poisoned[float32](GemmBF16RoundedScratch(m, n, k)))
				if !slices.Equal(got, want) {
					t.Errorf("%s, %d×%d×%d, trans %v %v: results differ", name, m, n, k, transA, transB)
				}
			}
		}
	}
}

func relu32(x float32) float32 {
	y := []float32{0}
	elementwise.ReLU([]float32{x}, y)
	return y[0]
}

func BenchmarkGemmBF16(b *testing.B) {
	kerneltest.NeedBF16(b)
	for _, s := range [][3]int{{512, 512, 512}, {64, 512, 784}, {256, 512, 784}, {64, 10, 1568}} {
		m, n, k := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("%dx%dx%d", m, n, k), func(b *testing.B) {
			x, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, m*k))
			y, _ := kerneltest.ToBF16(kerneltest.Random[float32](2, n*k))
			c, scratch := make([]float32, m*n), make([]float32, GemmBF16Scratch(m, n, k))
			for b.Loop() {
				GemmBF16(false, true, m, n, k, x, k, y, k, c, n, scratch, false)
			}
			b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
