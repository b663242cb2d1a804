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

// sweep is a million float32 from all over their range, in short tests 65,000, NaNs aside: every sign, exponent
// and, in steps, mantissa; and the ends of what has a finite or normal exponential.
func sweep() (x []float32) {
	step := uint64(1<<12 + 3)
	if testing.Short() {
		step = 1<<16 + 3
	}
	for b := uint64(0); b < 1<<32; b += step {
		if v := math.Float32frombits(uint32(b)); v == v {
			x = append(x, v)
		}
	}
	for _, v := range []float64{0, 88.72283, 88.7229, -87.3365, -103.2789, -103.972, -104, 708, 709, 1. / 1024, math.Inf(1), math.MaxFloat32, math.SmallestNonzeroFloat32} {
		x = append(x, float32(v), -float32(v), math.Nextafter32(float32(v), -1e9), math.Nextafter32(float32(v), 1e9))
	}
	return x
}

// Accuracy is how far a function of float32 may be from the exact one.
type Accuracy struct {
	ULP      float64 // units in the last place of the exact result
	Absolute float64 // below which no error counts
}

// IsAccurate fails unless f computes want at each level: over the whole range of float32,
// densely where functions bend, at the ends of the range, and NaN and infinities as want does.
func IsAccurate(t *testing.T, name string, a Accuracy, f func(x, y []float32), want func(float64) float64) {
	t.Helper()
	dense := 1 << 20
	if testing.Short() {
		dense = 1 << 16
	}
	x := append(sweep(), float32(math.NaN()), math.Float32frombits(0x7f800001), math.Float32frombits(0xffc00003))
	for i := range dense {
		x = append(x, float32(i-dense/2)*(32/float32(dense)))
	}
	exact := make([]float64, len(x))
	for i, v := range x {
		exact[i] = want(float64(v))
	}
	AtEachLevel(t, func(t *testing.T) {
		y := make([]float32, len(x))
		f(x, y)
		worst, at := 0.0, 0
		for i, v := range exact {
			if e := ulps(y[i], v, a.Absolute); !(e <= worst) {
				worst, at = e, i
			}
		}
		if !(worst <= a.ULP) {
			t.Errorf("%s(%v) is %v, want %v, within %v units in the last place and not %.4g", name, x[at], y[at], exact[at], a.ULP, worst)
		}
	})
}

// ulps is the error of got in units in the last place of want, +Inf where one is NaN or
// infinite and the other is not.
func ulps(got float32, want, absolute float64) float64 {
	near := float32(want)
	d := math.Abs(float64(got) - want)
	switch {
	case got == near, got != got && want != want, d <= absolute:
		return 0
	case got != got || math.IsInf(float64(near), 0) || math.IsInf(float64(got), 0) || want != want:
		return math.Inf(1)
	}
	return d / (float64(math.Nextafter32(abs(near), float32(math.Inf(1)))) - float64(abs(near)))
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

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
