package loss

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestIsArgmax(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		x    []float64
		want int
	}{
		{[]float64{1, 3, 3}, 1}, {[]float64{3, 1, 3}, 0}, {[]float64{-1}, 0}, {[]float64{math.Inf(-1), math.Inf(-1)}, 0},
		{[]float64{9, nan, nan}, 1}, {[]float64{nan, 9}, 0}, {[]float64{nan}, 0},
	} {
		for at := range c.x {
			if got := isArgmax(c.x, at, largest(c.x)); got != (at == c.want) {
				t.Errorf("element %d of %v being the largest is %v", at, c.x, got)
			}
		}
	}
}

var elementLosses = map[string]Elements[float32]{"mse": MSE[float32], "l1": L1[float32], "huber": Huber(float32(0.7)), "bce": BCEWithLogits[float32]}

// Losses of elements and their gradients give the bits of the reference, with and without gradients.
func TestElementBits(t *testing.T) {
	kernels := map[string]func(a, b, dst []float32){}
	for name, f := range elementLosses {
		kernels[name] = func(a, b, dst []float32) {
			sum := f(a, b, dst, 0.3)
			if alone := f(a, b, nil, 0.3); alone != sum && (alone == alone || sum == sum) {
				t.Errorf("%s of %d elements: %v, without gradients %v", name, len(a), sum, alone)
			}
			if len(a) > 0 {
				a[0], b[len(b)-1] = float32(sum), float32(sum-float64(float32(sum)))
			}
		}
	}
	kerneltest.SameBitsAtEachLevel(t, kernels)
	const n = 1500 // more than are kept without gradients
	x, target, dx := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), make([]float32, n)
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for name, f := range elementLosses {
			var want float64
			kerneltest.Reference(func() { want = f(x, target, dx, 1) })
			if got, alone := f(x, target, dx, 1), f(x, target, nil, 1); got != want || alone != want {
				t.Errorf("%s: %v, without gradients %v, want %v", name, got, alone, want)
			}
		}
	})
}

// The losses of float32 are as near to those of float64 as rounding allows, also where logits are large.
func TestElementsAreAccurate(t *testing.T) {
	exact := map[string]Elements[float64]{"mse": MSE[float64], "l1": L1[float64], "huber": Huber(float64(float32(0.7))), "bce": BCEWithLogits[float64]}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for name, f := range elementLosses {
			for _, size := range []float32{0.01, 1, 30, 1000} {
				x, target := kerneltest.Random[float32](1, 99), kerneltest.Random[float32](2, 99)
				for i := range x {
					x[i] *= size
				}
				dx, want := make([]float32, len(x)), make([]float64, len(x))
				sum := f(x, target, dx, 1)
				wantSum := exact[name](kerneltest.Widened(x), kerneltest.Widened(target), want, 1)
				kerneltest.Nearly(t, name+" gradient", dx, want, 2e-7)
				if math.Abs(sum-wantSum) > 2e-7*math.Abs(wantSum) {
					t.Errorf("%s: %v, want %v", name, sum, wantSum)
				}
			}
		}
	})
}

// Logits far apart neither overflow nor lose the loss.
func TestCrossEntropyIsStable(t *testing.T) {
	dx := make([]float32, 2)
	loss, counted, correct := SoftmaxCrossEntropy(1, 2, []float32{1e4, -1e4}, []int32{1}, Criterion{Ignore: -100}, nil, dx, 1)
	if loss != 2e4 || counted != 1 || correct != 0 {
		t.Errorf("loss %v, %d counted, %d correct", loss, counted, correct)
	}
	kerneltest.CloseTo(t, "dlogits", dx, []float32{1, -1}, 0)
}

func TestTargetOutsidePanics(t *testing.T) {
	kerneltest.Panics(t, "row 1 has target 5, outside [0, 3)", func() {
		SoftmaxCrossEntropy(2, 3, make([]float32, 6), []int32{0, 5}, Criterion{Ignore: -100}, nil, nil, 1)
	})
}
