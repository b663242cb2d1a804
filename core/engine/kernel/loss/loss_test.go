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
