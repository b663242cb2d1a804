package reduce

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

var reduceTypes = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I8, tensor.U8, tensor.I16, tensor.I32, tensor.I64}

func reduceElem(op Op, a, b float64) float64 {
	switch op {
	case Sum:
		return a + b
	case Prod:
		return a * b
	case Min:
		return math.Min(a, b)
	}
	return math.Max(a, b)
}

func small(seed uint64, n int) []float64 {
	x := kerneltest.Random[float64](seed, n)
	for i := range x {
		x[i] = math.Abs(math.Trunc(2 * x[i])) // fits every type, also as products of a few
	}
	return x
}

func TestReduceN(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, d := range reduceTypes {
			for op := Sum; op <= Max; op++ {
				for _, n := range []int{0, 1, 15, 17, 511, 1040} {
					for sources := 1; sources <= 4; sources++ {
						testReduceN(t, d, op, n, sources)
					}
				}
			}
		}
	})
}

func testReduceN(t *testing.T, d tensor.DType, op Op, n, sources int) {
	t.Helper()
	want, srcs := make([]float64, n), make([][]byte, sources)
	for s := range srcs {
		srcs[s] = kerneltest.Encode(d, small(uint64(s), n))
		for i := range want {
			if v := tensor.Number(d, srcs[s], i); s == 0 {
				want[i] = v
			} else {
				want[i] = reduceElem(op, want[i], v)
			}
		}
	}
	name := fmt.Sprintf("%v over %d %v from %d sources", op, n, d, sources)
	if sources == 2 {
		dst := bytes.Clone(srcs[0])
		Reduce(op, d, dst, srcs[1])
		if !bytes.Equal(dst, kerneltest.Encode(d, want)) {
			t.Fatalf("Reduce: %s is wrong", name)
		}
	}
	for i := range want {
		want[i] /= 2
	}
	for alias := -1; alias < sources; alias++ {
		dst, from := tensor.Aligned(len(srcs[0])), slices.Clone(srcs)
		if alias >= 0 {
			dst = bytes.Clone(srcs[alias])
			from[alias] = dst
		}
		ReduceN(op, d, dst, from, 0.5)
		if !bytes.Equal(dst, kerneltest.Encode(d, want)) {
			t.Fatalf("ReduceN: %s into source %d is wrong", name, alias)
		}
	}
}

// A sum of many halves is right to one rounding, where rounding after each addition would stick at 256.
func TestReduceHalfRoundsOnce(t *testing.T) {
	one := kerneltest.Encode(tensor.BF16, []float64{1})
	srcs := make([][]byte, 300)
	for i := range srcs {
		srcs[i] = one
	}
	dst := make([]byte, 2)
	ReduceN(Sum, tensor.BF16, dst, srcs, 1)
	if got := tensor.Number(tensor.BF16, dst, 0); got != 300 {
		t.Fatalf("300 ones add up to %v", got)
	}
}

// Sums of halves of any bits are those of plain Go, whatever the length: subnormal numbers, infinities and NaNs among them.
func TestAddHalfIsPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			for n := range 100 {
				a, b, got, want := make([]uint16, n), make([]uint16, n), make([]uint16, n+1), make([]uint16, n)
				for i := range a {
					a[i], b[i] = uint16(r.Uint32()), uint16(r.Uint32())
					if x, y := tensor.Number(d, tensor.Bytes(a), i), tensor.Number(d, tensor.Bytes(b), i); x != x && y != y {
						b[i] = 0 // processors differ in whose bits a sum of two NaNs has
					}
				}
				kerneltest.Reference(func() { AddHalf(d, a, b, want) })
				AddHalf(d, a, b, got[:n])
				if !slices.Equal(got[:n], want) || got[n] != 0 {
					t.Fatalf("%d elements of %v: %x + %x = %x, and %x behind it; plain Go says %x", n, d, a, b, got[:n], got[n], want)
				}
			}
		}
	})
}

func TestReducePassesNaN(t *testing.T) {
	nan := math.NaN()
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		for op := Sum; op <= Max; op++ {
			for i, pair := range [][2]float64{{nan, 1}, {1, nan}} {
				dst := kerneltest.Encode(d, pair[:1])
				Reduce(op, d, dst, kerneltest.Encode(d, pair[1:]))
				if got := tensor.Number(d, dst, 0); got == got {
					t.Errorf("%v of %v, NaN in place %d: %v", op, d, i, got)
				}
			}
		}
	}
}

func TestScaleBytes(t *testing.T) {
	for _, d := range reduceTypes {
		b := kerneltest.Encode(d, []float64{49, 98, 6})
		ScaleBytes(d, b, 0.5)
		want := []float64{24.5, 49, 3}
		if !d.Float() {
			want[0] = 24
		}
		if !bytes.Equal(b, kerneltest.Encode(d, want)) {
			t.Errorf("%v: wrong", d)
		}
	}
	b := kerneltest.Encode(tensor.I64, []float64{49, -49})
	if ScaleBytes(tensor.I64, b, 1.0/49); tensor.Number(tensor.I64, b, 0) != 1 || tensor.Number(tensor.I64, b, 1) != -1 {
		t.Errorf("49/49 and -49/49 are %v", b)
	}
}

func TestFinite(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for n := 1; n < 40; n++ {
				x := small(1, n)
				if b := kerneltest.Encode(d, x); !AllFiniteBytes(d, b) {
					t.Fatalf("%d %v: not finite", n, d)
				}
				x[n-1] = bad
				if b := kerneltest.Encode(d, x); AllFiniteBytes(d, b) {
					t.Fatalf("%v in %d %v: finite", bad, n, d)
				}
			}
		}
		if got := SumSquaresBytes(d, kerneltest.Encode(d, []float64{3, 4, 12})); got != 169 {
			t.Errorf("%v: 3² + 4² + 12² = %v", d, got)
		}
	}
}

func TestReduceDoesNotAllocate(t *testing.T) {
	a, b := tensor.Aligned(8192), tensor.Aligned(8192)
	srcs := [][]byte{a, b, a}
	for _, d := range reduceTypes {
		if n := testing.AllocsPerRun(10, func() {
			Reduce(Max, d, a, b)
			ReduceN(Sum, d, a, srcs, 0.5)
			ScaleBytes(d, a, 0.5)
		}); n != 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}

func BenchmarkReduce(b *testing.B) {
	const size = 1 << 18
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		x, y, z := tensor.Aligned(size), tensor.Aligned(size), tensor.Aligned(size)
		b.Run(d.String(), func(b *testing.B) { kerneltest.BenchBandwidth(b, size, func() { Reduce(Sum, d, x, y) }) })
		b.Run(d.String()+"/N3", func(b *testing.B) {
			srcs := [][]byte{x, y, z}
			kerneltest.BenchBandwidth(b, size, func() { ReduceN(Sum, d, x, srcs, 0.5) })
		})
	}
}
