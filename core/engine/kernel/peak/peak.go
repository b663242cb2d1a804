package peak

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
)

// MultiplyAdds runs rounds of independent float32 multiply-adds that stay in
// registers, as wide as the active level has them, and returns how many
// operations that was, a multiplication and an addition as two. It is for
// measuring what a core allows.
func MultiplyAdds(rounds int) (flops int64) {
	lanes := multiplyAdds(max(1, rounds))
	return int64(max(1, rounds)) * peakSums * int64(lanes) * 2
}

// MultiplyAddsBF16 is MultiplyAdds with products of bfloat16, in tiles or of pairs. Without
// HasBF16 it does nothing and returns 0.
func MultiplyAddsBF16(rounds int) (flops int64) {
	switch {
	case kernel.HasTiles():
		return amx.MultiplyAdds(max(1, rounds))
	case !kernel.HasBF16():
		return 0
	}
	runPairMultiplyAdds(max(1, rounds))
	return int64(max(1, rounds)) * peakSums * 2 * kernel.Block * 2
}

// peakSums independent sums hide the latency of a multiply-add.
const peakSums = 12

// multiplyAddsGeneric is what a loop without vectors reaches. What it returns
// keeps the compiler from leaving the loop out.
func multiplyAddsGeneric(rounds int) (s [peakSums]float32) {
	for range rounds {
		for i := range s {
			s[i] += s[i] * s[i]
		}
	}
	return s
}
