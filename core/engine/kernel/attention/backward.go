package attention

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// BackwardScratch is the number of scratch elements that Backward needs.
func BackwardScratch(h Head) int {
	return padded(tileQueries*tileKeys, tileQueries*tileKeys, h.Queries, tileQueries, tileKeys) + h.rotatedScratch() + h.gemmScratch()
}

// Backward adds the gradients of a head to dq, dk and dv, of the output out with its
// gradient dy. dq and dk are those of rotated queries and keys: once all heads have
// added theirs, [Rotary.Back] makes them those of what Forward was given.
// scratch holds BackwardScratch elements.
func Backward[T kernel.Float](h Head, positions *Rotary[T], q, k, v, out, dy Rows[T], lse []T, dq, dk, dv Rows[T], scratch []T) {
	r := room[T](scratch)
	probs, slopes := r.take(tileQueries*tileKeys), r.take(tileQueries*tileKeys)
	dots, sums, masks := r.take(h.Queries), r.take(tileQueries), r.take(tileKeys)
	q, k = rotated(positions, q, h.Queries, &r), rotated(positions, k, h.Keys, &r)
	dotRows(h.Queries, h.Dim, out, dy, dots)
	scale := T(h.scale())
	h.tiles(func(t tile) {
		gemm.Gemm(false, true, t.queries, t.keys, h.Dim, 1, q.from(t.q), q.Stride, k.from(t.k), k.Stride, 0, probs, tileKeys, r)
		gemm.Gemm(false, true, t.queries, t.keys, h.Dim, 1, dy.from(t.q), dy.Stride, v.from(t.k), v.Stride, 0, slopes, tileKeys, r)
		expScores(&h, t, probs, scale, lse[t.q:], sums)
		if h.Dropout.P > 0 {
			drop(&h, t, masks, slopes)
		}
		slopeScores(&h, t, probs, slopes, scale, dots[t.q:])
		if h.Dropout.P > 0 {
			drop(&h, t, masks, probs)
		}
		gemm.Gemm(true, false, t.keys, h.Dim, t.queries, 1, probs, tileKeys, dy.from(t.q), dy.Stride, 1, dv.from(t.k), dv.Stride, r)
		gemm.Gemm(true, false, t.keys, h.Dim, t.queries, 1, slopes, tileKeys, q.from(t.q), q.Stride, 1, dk.from(t.k), dk.Stride, r)
		gemm.Gemm(false, false, t.queries, h.Dim, t.keys, 1, slopes, tileKeys, k.from(t.k), k.Stride, 1, dq.from(t.q), dq.Stride, r)
	}, true)
}

// dotRows multiplies each of n rows of x with that of y.
func dotRows[T kernel.Float](n, dim int, x, y Rows[T], dots []T) {
	if x.Stride == y.Stride {
		elementwise.DotRowsApart(n, dim, x.Data, y.Data, x.Stride, dots)
		return
	}
	for i := range n {
		elementwise.DotRows(1, dim, x.row(i, dim), y.row(i, dim), dots[i:i+1])
	}
}
