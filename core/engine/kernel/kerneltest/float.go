package kerneltest

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/tensor"
)

// Float32 patterns near every rounding border of both half types: each half's
// value, the midpoints, their neighbours, and the special values, both signs.
func BorderPatterns() []float32 {
	var x []float32
	for h := range 1 << 16 {
		for _, base := range []uint32{math.Float32bits(tensor.F32FromF16(uint16(h))), uint32(h) << 16} {
			for _, half := range []uint32{0, 1 << 12, 1 << 15} {
				for _, d := range []uint32{^uint32(0), 0, 1} {
					x = append(x, math.Float32frombits(base+half+d))
				}
			}
		}
	}
	return x
}

// sweep is a million float32 from all over their range, NaNs aside: every sign, exponent
// and, in steps, mantissa; and the ends of what has a finite or normal exponential.
func sweep() (x []float32) {
	for b := uint64(0); b < 1<<32; b += 4099 {
		if v := math.Float32frombits(uint32(b)); v == v {
			x = append(x, v)
		}
	}
	for _, v := range []float64{0, 88.72283, 88.7229, -87.3365, -103.2789, -103.972, -104, 708, 709, 1. / 1024, math.Inf(1), math.MaxFloat32, math.SmallestNonzeroFloat32} {
		x = append(x, float32(v), -float32(v), math.Nextafter32(float32(v), -1e9), math.Nextafter32(float32(v), 1e9))
	}
	return x
}

// rounded fails unless got is want rounded to float32, within a thousandth of a unit in the last place.
func rounded(t *testing.T, what string, x, got float32, want float64) {
	t.Helper()
	near := float32(want)
	if got == near {
		return
	}
	unit := math.Abs(float64(math.Nextafter32(near, float32(math.Inf(1)))) - float64(near))
	if d := math.Abs(float64(got) - want); !(d <= 0.501*unit) {
		t.Fatalf("%s(%v) is %v, want %v", what, x, got, want)
	}
}

// IsRounded fails unless f computes want over the whole range of float32, rounded, at
// each level, and NaN of NaN.
func IsRounded(t *testing.T, name string, f func(x, y []float32), want func(float64) float64) {
	t.Helper()
	x := sweep()
	AtEachLevel(t, func(t *testing.T) {
		y := make([]float32, len(x))
		f(x, y)
		for i, v := range x {
			rounded(t, name, v, y[i], want(float64(v)))
		}
		f([]float32{1, float32(math.NaN()), 2}, y)
		if y[0] != y[0] || y[1] == y[1] || y[2] != y[2] {
			t.Errorf("%s of 1, NaN, 2 is %v", name, y[:3])
		}
	})
}

// Nearly fails unless got is within tol of want, relative to the root mean square of want.
func Nearly(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	var sq float64
	for _, v := range want {
		sq += v * v
	}
	limit := tol * math.Sqrt(sq/float64(len(want)))
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - v); !(d <= limit) {
			t.Fatalf("%s: element %d is %v, want %v (off by %.3g, limit %.3g)", what, i, got[i], v, d, limit)
		}
	}
}

// Widened is x in float64.
func Widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
