package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// QueryScratch is the number of scratch elements that Query needs for up to so many keys.
func QueryScratch(keys, dim int) int {
	return padded(wholeVectors(keys)) + gemm.GemmScratch(1, dim, keys)
}

func wholeVectors(n int) int { return (n + kernel.Block - 1) / kernel.Block * kernel.Block }

// Query writes the output row of one query that attends to all of n keys, at least one: what
// a model that generates text computes for each token, where earlier keys and values are kept.
// It is bound by reading them, once each. scratch holds QueryScratch(n, len(q)) elements.
func Query[T kernel.Float](q []T, n int, k, v Rows[T], out, scratch []T) {
	r := room[T](scratch)
	probs := r.take(wholeVectors(n))
	elementwise.VectorDots(n, len(q), k.Data, k.Stride, q, probs)
	h := Head{Queries: 1, Keys: n, Dim: len(q)}
	t, peak, sum := tile{queries: 1, keys: n}, [1]T{T(math.Inf(-1))}, [1]T{}
	raisePeaks(&h, t, probs, T(h.scale()), peak[:])
	expScores(&h, t, probs, T(h.scale()), peak[:], sum[:])
	gemm.Gemm(false, false, 1, len(q), n, 1, probs, n, v.Data, v.Stride, 0, out, len(q), r)
	elementwise.Scale(out[:len(q)], 1/sum[0])
}
