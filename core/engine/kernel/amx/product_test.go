package amx_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

// small are numbers whose products and sums are exact.
func small(r *rand.Rand, n int) (h []uint16, exact []float32) {
	h, exact = make([]uint16, n), make([]float32, n)
	for i := range h {
		exact[i] = float32(r.IntN(17) - 8)
		h[i] = tensor.BF16FromF32(exact[i])
	}
	return h, exact
}

// Products of any number of rows, columns and pairs are the definition's, and write no other element.
func TestProduct(t *testing.T) {
	t.Run("emulated", func(t *testing.T) {
		defer amx.Emulate()()
		testProduct(t)
	})
	t.Run("tiles", func(t *testing.T) {
		kerneltest.NeedLevel(t, kernel.AVX512AMX)
		testProduct(t)
	})
}

func testProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		rows, cols, pairs := 1+r.IntN(2*amx.Rows), 1+r.IntN(2*amx.Cols), 1+r.IntN(amx.Pairs)
		count, steps, add := 1, 1+r.IntN(4), r.IntN(2)
		if cols == 2*amx.Cols {
			count += r.IntN(3)
		}
		aRow, bRow, cRow := 2*pairs*steps+2*r.IntN(9), 2*(count*2*amx.Cols+r.IntN(9)), count*2*amx.Cols+r.IntN(9)
		a, wideA := small(r, 2*amx.Rows*aRow)
		b, wideB := small(r, steps*pairs*bRow)
		c := make([]float32, 2*amx.Rows*cRow)
		for i := range c {
			c[i] = float32(i % 5)
		}
		want := make([]float32, len(c))
		copy(want, c)
		off := make([]amx.Step, steps)
		for i := range off {
			off[i] = amx.Step{A: int32(4 * pairs * i), B: int32(2 * bRow * pairs * i)}
		}
		for i := range rows {
			for j := range (count-1)*2*amx.Cols + cols {
				sum := want[i*cRow+j] * float32(add)
				for l := range 2 * pairs * steps {
					sum += wideA[i*aRow+l] * wideB[l/2*bRow+2*j+l%2]
				}
				want[i*cRow+j] = sum
			}
		}
		p := amx.Product{Count: count, Steps: steps, Add: add, Off: &off[0], A: &a[0], ARow: 2 * aRow, ANext: 2 * amx.Rows * aRow,
			B: &b[0], BRow: 2 * bRow, BNext: 4 * amx.Cols, BMove: 8 * amx.Cols, C: &c[0], CRow: 4 * cRow, CNext: 4 * amx.Cols, CMove: 8 * amx.Cols}
		p.SetTiles(rows, cols, pairs)
		p.Run()
		kerneltest.SameBits(t, fmt.Sprintf("%d×%d, %d pairs, %d steps, %d times, add %d", rows, cols, pairs, steps, count, add), c, want)
	}
}

// Copies between images and what products read and write keep every element, and write no other row.
func TestRows(t *testing.T) {
	kerneltest.NeedBF16(t)
	r := rand.New(rand.NewPCG(2, 2))
	const rows = 3
	for n := 1; n <= 100; n++ {
		x, y := kerneltest.Random[float32](uint64(n), rows*128+16), kerneltest.Random[float32](uint64(n+1), rows*128+16)
		got := make([]uint16, rows*n)
		amx.RoundRows(rows, n, &x[0], 4*128, 0.5, &got[0], 2*n)
		for i, h := range got {
			if want := tensor.BF16FromF32(x[i/n*128+i%n] + 0.5); h != want {
				t.Fatalf("%d columns: element %d is %#x, want %#x", n, i, h, want)
			}
		}
		amx.RoundPairs(rows, n, &x[0], &y[0], 4*128, &got[0], 2*n)
		for i, h := range got {
			v := x
			if i%n%2 > 0 {
				v = y
			}
			if want := tensor.BF16FromF32(v[i/n*128+i%n/2]); h != want {
				t.Fatalf("%d columns in pairs: element %d is %#x, want %#x", n, i, h, want)
			}
		}
	}
	for n := 1; n <= 32; n++ {
		even, _ := small(r, rows*n)
		odd, _ := small(r, rows*n)
		left, right := make([]float32, rows*16), make([]float32, rows*16)
		amx.SplitPairs(rows, n, &even[0], &odd[0], 2*n, &left[0], &right[0], 4*16)
		words, rest := make([]uint16, rows*16), make([]uint16, rows*16)
		amx.SplitWords(rows, n, &even[0], 2*n, &words[0], &rest[0], 2*16)
		for i := range rows * 32 {
			row, col := i/32, i%32
			var e, o uint16
			if col < n {
				e, o = even[row*n+col], odd[row*n+col]
			}
			pairs, plain := left, words
			if col%2 > 0 {
				pairs, plain = right, rest
			}
			if bits := math.Float32bits(pairs[row*16+col/2]); bits != uint32(e)|uint32(o)<<16 {
				t.Fatalf("%d elements: pair %d is %#x, want %#x and %#x", n, i, bits, e, o)
			}
			if h := plain[row*16+col/2]; h != e {
				t.Fatalf("%d elements: element %d is %#x, want %#x", n, i, h, e)
			}
		}
	}
}
