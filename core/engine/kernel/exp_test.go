package kernel

import (
	"math"
	"testing"
)

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

func TestExponentials(t *testing.T) {
	x := sweep()
	atEachLevel(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			f    func(x, y []float32)
			want func(float64) float64
		}{
			"exp":     {func(x, y []float32) { expSum(x, 0, y) }, math.Exp},
			"sigmoid": {Sigmoid[float32], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
			"tanh":    {Tanh[float32], math.Tanh},
		} {
			y := make([]float32, len(x))
			c.f(x, y)
			for i, v := range x {
				rounded(t, name, v, y[i], c.want(float64(v)))
			}
			c.f([]float32{1, float32(math.NaN()), 2}, y)
			if y[0] != y[0] || y[1] == y[1] || y[2] != y[2] {
				t.Errorf("%s of 1, NaN, 2 is %v", name, y[:3])
			}
		}
	})
}

// Rows of any length give the same loss and gradient, bit for bit, at every level.
func TestCrossEntropyBits(t *testing.T) {
	for n := 1; n < 70; n++ {
		for _, smoothing := range []float32{0, 0.1} {
			x := random[float32](uint64(n), 3*n)
			want := make([]float32, 3*n)
			target := []int32{0, int32(n) - 1, int32(n) / 2}
			var wantSum float64
			reference(func() { wantSum, _, _ = SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, want, 0.3) })
			atEachLevel(t, func(t *testing.T) {
				got := make([]float32, 3*n)
				sum, _, _ := SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, got, 0.3)
				alone, _, _ := SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, nil, 0.3)
				if sum != wantSum || alone != wantSum {
					t.Errorf("%d classes: loss %v, without a gradient %v, want %v", n, sum, alone, wantSum)
				}
				sameBits(t, "dlogits", got, want)
			})
		}
	}
}

func TestLargest(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := 1; n < 50; n++ {
			x := random[float32](uint64(n), n)
			for i := range x {
				x[i] -= 10 // zeros that fill up vectors would be larger
			}
			for _, v := range []float32{x[0], float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				x[n/2] = v
				var want float32
				reference(func() { want = largest(x) })
				if got := largest(x); got != want {
					t.Errorf("of %d with %v in the middle it is %v, want %v", n, v, got, want)
				}
			}
		}
	})
}
