package convert

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestHalfConversionsBits(t *testing.T) {
	x := kerneltest.BorderPatterns()
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		got := tensor.Aligned(2 * len(x))
		Convert(tensor.F16, got, tensor.F32, tensor.Bytes(x))
		for i, h := range tensor.View[uint16](got) {
			if want := tensor.F16FromF32(x[i]); h != want {
				t.Fatalf("f16 of %v (%#x) is %#x, want %#x", x[i], math.Float32bits(x[i]), h, want)
			}
		}
		Convert(tensor.BF16, got, tensor.F32, tensor.Bytes(x))
		for i, h := range tensor.View[uint16](got) {
			if want := tensor.BF16FromF32(x[i]); h != want {
				t.Fatalf("bf16 of %v (%#x) is %#x, want %#x", x[i], math.Float32bits(x[i]), h, want)
			}
		}
		all := make([]uint16, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		wide := make([]float32, len(all))
		for d, widen := range map[tensor.DType]func(uint16) float32{tensor.F16: tensor.F32FromF16, tensor.BF16: tensor.F32FromBF16} {
			want := make([]float32, len(all))
			for i, h := range all {
				want[i] = widen(h)
			}
			Convert(tensor.F32, tensor.Bytes(wide), d, tensor.Bytes(all))
			kerneltest.SameBits(t, d.String(), wide, want)
		}
	})
}

func TestConvertAllPairs(t *testing.T) {
	floats := []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, from := range floats {
			for _, to := range floats {
				for n := range 50 {
					src := kerneltest.Encode(from, kerneltest.Random[float64](uint64(n), n))
					dst := tensor.Aligned(n * to.Size())
					Convert(to, dst, from, src)
					want := make([]float64, n)
					for i := range want {
						want[i] = tensor.Number(from, src, i)
					}
					if from != tensor.F64 && !bytes.Equal(dst, kerneltest.Encode(to, want)) {
						t.Fatalf("%d elements from %v to %v: wrong", n, from, to)
					}
				}
			}
		}
	})
}

// Just above a midpoint, by less than float32 can tell: rounding twice would give the even neighbour.
func TestConvertFromF64RoundsOnce(t *testing.T) {
	for d, ulp := range map[tensor.DType]float64{tensor.F16: 1.0 / 1024, tensor.BF16: 1.0 / 128} {
		for _, sign := range []float64{1, -1} {
			dst := make([]byte, 2)
			Convert(d, dst, tensor.F64, tensor.Bytes([]float64{sign * (1 + ulp/2 + 1e-12)}))
			if got, want := tensor.Number(d, dst, 0), sign*(1+ulp); got != want {
				t.Errorf("%v: got %v, want %v", d, got, want)
			}
		}
	}
	dst := make([]byte, 2)
	for v, want := range map[float64]float64{1e300: math.Inf(1), -1e300: math.Inf(-1), 1e-300: 0, math.Inf(1): math.Inf(1)} {
		if Convert(tensor.F16, dst, tensor.F64, tensor.Bytes([]float64{v})); tensor.Number(tensor.F16, dst, 0) != want {
			t.Errorf("f16 of %v is %v", v, tensor.Number(tensor.F16, dst, 0))
		}
	}
}

// Narrowing and widening round to a half type, as the scalar conversions do.
func TestHalfTypesRound(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 40 {
			x := kerneltest.Awkward(uint64(n), n)
			want16, wantB, got, half := make([]float32, n), make([]float32, n), make([]float32, n), make([]byte, 2*n)
			for i, v := range x {
				want16[i], wantB[i] = tensor.F32FromF16(tensor.F16FromF32(v)), tensor.F32FromBF16(tensor.BF16FromF32(v))
			}
			for d, want := range map[tensor.DType][]float32{tensor.F16: want16, tensor.BF16: wantB} {
				Narrow(d, half, x)
				Widen(d, got, half)
				kerneltest.SameBits(t, fmt.Sprintf("%v, %d", d, n), got, want)
			}
		}
	})
}
