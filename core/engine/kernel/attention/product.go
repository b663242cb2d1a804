package attention

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// part is some queries of a tile, which see at most some keys: those from from on are seen by no query before.
// A tile on the diagonal is multiplied in parts of a band, which leave out what causal queries do not see.
type part struct{ first, queries, keys, from int }

// parts calls f for the parts of a tile.
func (h *Head) parts(t tile, f func(p part)) {
	p := part{queries: t.queries, keys: t.keys}
	if h.Causal && h.seen(t, 0) < t.keys {
		p.queries = bandRows
	}
	for ; p.first < t.queries; p.first += p.queries {
		p.queries = min(p.queries, t.queries-p.first)
		if p.keys = h.seen(t, p.first+p.queries-1); p.keys > 0 {
			f(p)
		}
		p.from = p.keys
	}
}

// scoresOf computes x = q·kᵀ as far as queries see keys, in rows of tileKeys.
func scoresOf[T kernel.Float](h *Head, t tile, q, k Rows[T], x, scratch []T) {
	h.parts(t, func(p part) {
		gemm.Gemm(false, true, p.queries, p.keys, h.Dim, 1, q.from(t.q+p.first), q.Stride, k.from(t.k), k.Stride, 0, x[p.first*tileKeys:], tileKeys, scratch)
	})
}

// byQuery computes out = x·v + beta·out, for every query of the tile.
func byQuery[T kernel.Float](h *Head, t tile, x []T, v Rows[T], beta T, out Rows[T], scratch []T) {
	h.parts(t, func(p part) {
		gemm.Gemm(false, false, p.queries, h.Dim, p.keys, 1, x[p.first*tileKeys:], tileKeys, v.from(t.k), v.Stride, beta, out.from(t.q+p.first), out.Stride, scratch)
	})
}

// byKey adds xᵀ·y to out, for every key of the tile.
func byKey[T kernel.Float](h *Head, t tile, x []T, y, out Rows[T], scratch []T) {
	h.parts(t, func(p part) {
		if p.keys > p.from {
			gemm.Gemm(true, false, p.keys-p.from, h.Dim, t.queries-p.first, 1, x[p.first*tileKeys+p.from:], tileKeys, y.from(t.q+p.first), y.Stride, 1, out.from(t.k+p.from), out.Stride, scratch)
		}
	})
}
