package loss

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The parts of a softmax give the bits of the reference.
func TestSoftmaxBits(t *testing.T) {
	rows := func(f func(n int, x, y []float32)) func(a, b, dst []float32) {
		return func(a, _, dst []float32) { // once as a row, and once as rows of three
			if n := len(a); n > 0 {
				f(n, a, dst)
			}
			if len(a) >= 3 {
				f(3, a, dst)
			}
		}
	}
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){
		"softmax":   rows(func(n int, x, y []float32) { Softmax(len(x)/n, n, x, y) }),
		"scaleRows": rows(func(n int, x, y []float32) { scaleRows(len(x)/n, n, y, x, 0.1) }),
		"sums": rows(func(n int, x, y []float32) {
			sums := make([]float64, len(x)/n)
			expRows(len(x)/n, n, x, nil, y, sums)
			for i, v := range sums {
				y[len(x)/n-1-i] += float32(v)
			}
		}),
	})
}

// The exponential of what is below a row's peak is as near to the exact one as the documentation says.
func TestExponentialIsAccurate(t *testing.T) {
	kerneltest.IsAccurate(t, "exp", kerneltest.Accuracy{ULP: 1.5}, func(x, y []float32) {
		pairs, peaks, sums := make([]float32, 2*len(x)), make([]float32, len(x)), make([]float64, len(x))
		for i, v := range x {
			pairs[2*i] = -max(v, -v)
		}
		expRows(len(x), 2, pairs, pairs, peaks, sums)
		for i := range y {
			y[i] = pairs[2*i]
		}
	}, func(x float64) float64 { return math.Exp(-math.Abs(x)) })
}

// Rows of any length give the same loss and gradient, bit for bit, at every level.
func TestCrossEntropyBits(t *testing.T) {
	for n := 1; n < 70; n++ {
		for _, smoothing := range []float64{0, 0.1} {
			x := kerneltest.Random[float32](uint64(n), 3*n)
			want := make([]float32, 3*n)
			target := []int32{0, int32(n) - 1, int32(n) / 2}
			var wantSum float64
			kerneltest.Reference(func() {
				wantSum, _, _ = SoftmaxCrossEntropy(3, n, x, target, Criterion{Ignore: -100, Smoothing: smoothing}, nil, want, 0.3)
			})
			kerneltest.AtEachLevel(t, func(t *testing.T) {
				got := make([]float32, 3*n)
				sum, _, _ := SoftmaxCrossEntropy(3, n, x, target, Criterion{Ignore: -100, Smoothing: smoothing}, nil, got, 0.3)
				alone, _, _ := SoftmaxCrossEntropy(3, n, x, target, Criterion{Ignore: -100, Smoothing: smoothing}, nil, nil, 0.3)
				if sum != wantSum || alone != wantSum {
					t.Errorf("%d classes: loss %v, without a gradient %v, want %v", n, sum, alone, wantSum)
				}
				kerneltest.SameBits(t, "dlogits", got, want)
			})
		}
	}
}

func TestLargest(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := 1; n < 50; n++ {
			x := kerneltest.Random[float32](uint64(n), n)
			for i := range x {
				x[i] -= 10 // zeros that fill up vectors would be larger
			}
			for _, v := range []float32{x[0], float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				x[n/2] = v
				var want float32
				kerneltest.Reference(func() { want = largest(x) })
				if got := largest(x); got != want {
					t.Errorf("of %d with %v in the middle it is %v, want %v", n, v, got, want)
				}
			}
		}
	})
}
