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

// keyRows are keys, or values, with which queries are multiplied: those of the last tile also in the form of panels, where there
// are vectors.
type keyRows[T kernel.Float] struct {
	Rows[T]
	panels   []T
	first, n int // what panels hold
}

// keyPanels is the room for panels.
func (h *Head) keyPanels() int {
	if kernel.Current() == kernel.Generic {
		return 0
	}
	return gemm.PackedElems(min(tileKeys, h.Keys), h.Dim)
}

// pack makes the panels of a tile's keys, and of those that queries behind it see.
func (r *keyRows[T]) pack(h *Head, t tile) {
	if n := min(tileKeys, h.Keys-t.k); r.first != t.k || r.n != n {
		gemm.PackRows(n, h.Dim, kernel.As32(r.from(t.k)), r.Stride, kernel.As32(r.panels))
		r.first, r.n = t.k, n
	}
}

// scoresOf computes x = q·kᵀ as far as queries see keys, in rows of tileKeys.
func scoresOf[T kernel.Float](h *Head, t tile, q Rows[T], k *keyRows[T], x, scratch []T) {
	packed := kernel.HasVectors[T]() && t.queries >= bandRows // for fewer queries, packing keys takes longer than it saves
	if packed {
		k.pack(h, t)
	}
	h.parts(t, func(p part) {
		if packed {
			gemm.MulPacked(p.queries, p.keys, h.Dim, kernel.As32(q.from(t.q+p.first)), q.Stride, kernel.As32(k.panels), k.n, kernel.As32(x[p.first*tileKeys:]), tileKeys)
			return
		}
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
