package geometry

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestLaneSums has every number of vectors up to some squares of lanes.
func TestLaneSums(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, lanes := range []int{8, 16} {
			for n := range 50 {
				x, sums, want := kerneltest.Random[float32](1, n*lanes), make([]float32, n), make([]float32, n)
				LaneSums(lanes, x, sums)
				elementwise.RowSums(n, lanes, x, want)
				kerneltest.SameBits(t, fmt.Sprintf("sums of %d vectors of %d lanes", n, lanes), sums, want)
			}
		}
	})
}
