package optimizer

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
)

// Small models have blocks enough to keep a GPU busy, large ones no more than
// they need, and each element is in one of them.
func TestPartsOfTheOptimizer(t *testing.T) {
	for n, want := range map[int]uint32{1: 1 << 10, 100_000: 1 << 10, 25_000_000: 25_000_000 / kernels.MostBlocks, 1 << 30: 16 << 10} {
		if got := perPart(n); got != want {
			t.Errorf("%d elements: %d for each block, want %d", n, got, want)
		}
	}
}
