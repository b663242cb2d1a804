package attention

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
)

// BackwardScratch is the number of scratch elements that Backward needs.
func BackwardScratch(h Head) int {
	return padded(tileQueries*tileKeys, tileQueries*tileKeys, h.Queries, tileKeys) + h.rotatedScratch() + h.gemmScratch()
}

// Backward adds the gradients of a head to dq, dk and dv, of the output out with its
// gradient dy. dq and dk are those of rotated queries and keys: once all heads have
// added theirs, [Rotary.Back] makes them those of what Forward was given.
// scratch holds BackwardScratch elements.
func Backward[T kernel.Float](h Head, positions *Rotary[T], q, k, v, out, dy Rows[T], lse []T, dq, dk, dv Rows[T], scratch []T) {
	r := room[T](scratch)
	probs, slopes := r.take(tileQueries*tileKeys), r.take(tileQueries*tileKeys)
	dots, masks := r.take(h.Queries), r.take(tileKeys)
	q, k = rotated(positions, q, h.Queries, &r), rotated(positions, k, h.Keys, &r)
	for row := range h.Queries {
		elementwise.DotRows(1, h.Dim, out.row(row, h.Dim), dy.row(row, h.Dim), dots[row:row+1])
	}
	scale := T(h.scale())
	h.tiles(func(t tile) {
		gemm.Gemm(false, true, t.queries, t.keys, h.Dim, scale, q.from(t.q), q.Stride, k.from(t.k), k.Stride, 0, probs, tileKeys, r)
		gemm.Gemm(false, true, t.queries, t.keys, h.Dim, 1, dy.from(t.q), dy.Stride, v.from(t.k), v.Stride, 0, slopes, tileKeys, r)
		for i := range t.queries {
			n, row := h.seen(t, i), t.q+i
			p, s := probs[i*tileKeys:][:t.keys], slopes[i*tileKeys:][:t.keys]
			clear(p[n:])
			clear(s[n:])
			if p, s = p[:n], s[:n]; n == 0 {
				continue
			}
			loss.ExpSum(p, lse[row], p)
			if h.Dropout.P > 0 {
				dropMask(&h, row, t.k, masks[:n])
				elementwise.Mul(s, masks[:n], s)
			}
			elementwise.Mul(s, p, s)
			elementwise.Axpy(s, -dots[row], p)
			if h.Dropout.P > 0 {
				elementwise.Mul(p, masks[:n], p)
			}
		}
		gemm.Gemm(true, false, t.keys, h.Dim, t.queries, 1, probs, tileKeys, dy.from(t.q), dy.Stride, 1, dv.from(t.k), dv.Stride, r)
		gemm.Gemm(true, false, t.keys, h.Dim, t.queries, scale, slopes, tileKeys, q.from(t.q), q.Stride, 1, dk.from(t.k), dk.Stride, r)
		gemm.Gemm(false, false, t.queries, h.Dim, t.keys, scale, slopes, tileKeys, k.from(t.k), k.Stride, 1, dq.from(t.q), dq.Stride, r)
	}, true)
}
