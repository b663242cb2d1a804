package reduce

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestSums(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 100 {
			x, dy := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n)
			got := []float64{Sum64(x), SumSqDiff64(x, 0.3), 0, 0}
			got[2], got[3] = SumAndDot64(dy, x, 0.3)
			want := make([]float64, 4)
			for i, v := range x {
				d := float64(v) - float64(float32(0.3))
				want[0] += float64(v)
				want[1] += (float64(v) - 0.3) * (float64(v) - 0.3)
				want[2] += float64(dy[i])
				want[3] += float64(dy[i]) * d
			}
			kerneltest.CloseTo(t, fmt.Sprintf("sums of %d", n), got, want, 1e-12)
		}
	})
}
