package elementwise

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

// Every value against every sign of gradient, at every length, bit by bit.
func TestElementwiseBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atElementwiseBF16) }

func atElementwiseBF16(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	other, _ := kerneltest.ToBF16(kerneltest.Awkward(3, len(all)))
	for _, n := range []int{len(all), 0, 1, 2, 31, 32, 33, 63, 64, 65, 100} {
		x, dy := all[len(all)-n:], other[:n]
		got, want := make([]uint16, n+1), make([]float32, n)
		got[n] = 77
		ReLUBF16(x, got)
		ReLU(kerneltest.FromBF16(x), want)
		sameHalf(t, "relu", got, want)
		ReLUGradBF16(x, dy, got)
		ReLUGrad(kerneltest.FromBF16(x), kerneltest.FromBF16(dy), want)
		sameHalf(t, "relu gradient", got, want)
		ReLU6BF16(x, got)
		ReLU6(kerneltest.FromBF16(x), want)
		sameHalf(t, "relu6", got, want)
		ReLU6GradBF16(x, dy, got)
		ReLU6Grad(kerneltest.FromBF16(x), kerneltest.FromBF16(dy), want)
		sameHalf(t, "relu6 gradient", got, want)
		AddBF16(x, dy, got[:n])
		Add(kerneltest.FromBF16(x), kerneltest.FromBF16(dy), want)
		for i, v := range want { // subnormal sums become zero
			if math.Abs(float64(v)) < 0x1p-126 {
				want[i] = float32(math.Copysign(0, float64(v)))
			}
		}
		sameHalf(t, "sum", got, want)
	}
}

// sameHalf fails unless got has the bits of want rounded, any NaN for NaN, and 77 behind them.
func sameHalf(t *testing.T, what string, got []uint16, want []float32) {
	t.Helper()
	if got[len(want)] != 77 {
		t.Errorf("%s of %d elements: one more was written", what, len(want))
	}
	for i, v := range want {
		if got[i] != tensor.BF16FromF32(v) && !(v != v && got[i]&0x7fff > 0x7f80) {
			t.Fatalf("%s: element %d of %d is %#04x, want %#04x", what, i, len(want), got[i], tensor.BF16FromF32(v))
		}
	}
}
