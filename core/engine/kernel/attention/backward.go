package attention

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// BackwardScratch is the number of scratch elements that Backward needs.
func BackwardScratch(h Head) int {
	return padded(tileQueries*tileKeys, tileQueries*tileKeys, h.Queries, tileQueries, h.keyPanels(), h.keyPanels()) + h.rotatedScratch() + h.gemmScratch()
}

// Backward adds the gradients of a head to dq, dk and dv, of the output out with its
// gradient dy. dq and dk are those of rotated queries and keys: once all heads have
// added theirs, [Rotary.Back] makes them those of what Forward was given.
// scratch holds BackwardScratch elements.
func Backward[T kernel.Float](h Head, positions *Rotary[T], q, k, v, out, dy Rows[T], lse []T, dq, dk, dv Rows[T], scratch []T) {
	r := room[T](scratch)
	probs, slopes := r.take(tileQueries*tileKeys), r.take(tileQueries*tileKeys)
	dots, sums := r.take(h.Queries), r.take(tileQueries)
	q, k = rotated(positions, q, h.Queries, &r), rotated(positions, k, h.Keys, &r)
	keys, values := keyRows[T]{Rows: k, panels: r.take(h.keyPanels())}, keyRows[T]{Rows: v, panels: r.take(h.keyPanels())}
	dotRows(h.Queries, h.Dim, out, dy, dots)
	scale := T(h.scale())
	h.tiles(func(t tile) {
		scoresOf(&h, t, q, &keys, probs, r)
		scoresOf(&h, t, dy, &values, slopes, r)
		expScores(&h, t, probs, scale, lse[t.q:], sums)
		if h.Dropout.P > 0 {
			drop(&h, t, slopes)
		}
		slopeScores(&h, t, probs, slopes, scale, dots[t.q:])
		if h.Dropout.P > 0 {
			drop(&h, t, probs)
		}
		byKey(&h, t, probs, dy, dv, r)
		byKey(&h, t, slopes, q, dk, r)
		byQuery(&h, t, slopes, k, 1, dq, r)
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
