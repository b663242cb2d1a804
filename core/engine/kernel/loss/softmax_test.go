package loss

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The parts of a softmax give the bits of the reference.
func TestSoftmaxBits(t *testing.T) {
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){
		"expSum":      func(a, _, dst []float32) { ExpSum(a, 0.5, dst) },
		"softmaxGrad": func(_, _, dst []float32) { softmaxGrad(dst, 1.7, 0.1, 0.3) },
	})
}

func TestExpSumRounds(t *testing.T) {
	kerneltest.IsRounded(t, "exp", func(x, y []float32) { ExpSum(x, 0, y) }, math.Exp)
}

// Rows of any length give the same loss and gradient, bit for bit, at every level.
func TestCrossEntropyBits(t *testing.T) {
	for n := 1; n < 70; n++ {
		for _, smoothing := range []float32{0, 0.1} {
			x := kerneltest.Random[float32](uint64(n), 3*n)
			want := make([]float32, 3*n)
			target := []int32{0, int32(n) - 1, int32(n) / 2}
			var wantSum float64
			kerneltest.Reference(func() { wantSum, _, _ = SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, want, 0.3) })
			kerneltest.AtEachLevel(t, func(t *testing.T) {
				got := make([]float32, 3*n)
				sum, _, _ := SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, got, 0.3)
				alone, _, _ := SoftmaxCrossEntropy(3, n, x, target, -100, smoothing, nil, nil, 0.3)
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
				kerneltest.Reference(func() { want = Largest(x) })
				if got := Largest(x); got != want {
					t.Errorf("of %d with %v in the middle it is %v, want %v", n, v, got, want)
				}
			}
		}
	})
}
