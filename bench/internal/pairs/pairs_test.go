package pairs

import (
	"math"
	"testing"
)

// The interval is that of a table of Student's distribution.
func TestEstimate(t *testing.T) {
	for freedom, want := range map[float64]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 7: 2.365, 11: 2.201, 1000: 1.962} {
		if got := student(freedom); math.Abs(got-want) > 0.01*want {
			t.Errorf("%v degrees of freedom: %v, want %v", freedom, got, want)
		}
	}
	e := EstimateOf([]float64{1.02, 0.98, 1.01, 0.99, 1})
	const deviation = 0.01582 // of their logarithms
	half := 2.776 * deviation / math.Sqrt(5)
	if math.Abs(e.Ratio-1) > 1e-3 || e.Of != 5 || math.Abs(math.Log(e.High/e.Low)-2*half) > 0.01*half {
		t.Errorf("%v, want a ratio of 1 ± %.4f", e, half)
	}
}
