package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
)

// ForwardScratch is the number of scratch elements that Forward needs.
func ForwardScratch(h Head) int {
	return padded(tileQueries*tileKeys, h.Queries, tileKeys) + h.rotatedScratch() + h.gemmScratch()
}

// Forward writes a head's output rows, and of each query log Σexp of its scores to lse.
// positions is nil unless h.Rotary. out must not overlap the inputs. scratch holds ForwardScratch elements.
func Forward[T kernel.Float](h Head, positions *Rotary[T], q, k, v, out Rows[T], lse, scratch []T) {
	r := room[T](scratch)
	scores, sums, masks := r.take(tileQueries*tileKeys), r.take(h.Queries), r.take(tileKeys)
	q, k = rotated(positions, q, h.Queries, &r), rotated(positions, k, h.Keys, &r)
	h.tiles(func(t tile) {
		gemm.Gemm(false, true, t.queries, t.keys, h.Dim, T(h.scale()), q.from(t.q), q.Stride, k.from(t.k), k.Stride, 0, scores, tileKeys, r)
		for i := range t.queries {
			x, n, row := scores[i*tileKeys:][:t.keys], h.seen(t, i), t.q+i
			clear(x[n:])
			if n == 0 {
				continue
			}
			o := out.row(row, h.Dim)
			if t.k == 0 {
				lse[row], sums[row] = loss.Largest(x[:n]), 0
			} else if top := loss.Largest(x[:n]); top > lse[row] {
				shrink := T(math.Exp(float64(lse[row]) - float64(top)))
				elementwise.Scale(o, shrink)
				lse[row], sums[row] = top, sums[row]*shrink
			}
			sums[row] += T(loss.ExpSum(x[:n], lse[row], x[:n]))
			if h.Dropout.P > 0 {
				dropMask(&h, row, t.k, masks[:n])
				elementwise.Mul(x[:n], masks[:n], x[:n])
			}
		}
		var add T
		if t.k > 0 {
			add = 1
		}
		gemm.Gemm(false, false, t.queries, h.Dim, t.keys, 1, scores, tileKeys, v.from(t.k), v.Stride, add, out.from(t.q), out.Stride, r)
	}, false)
	for row := range h.Queries {
		elementwise.Scale(out.row(row, h.Dim), 1/sums[row])
		lse[row] += T(math.Log(float64(sums[row])))
	}
}

// dropMask makes what a query's probabilities from key first on are multiplied by.
func dropMask[T kernel.Float](h *Head, query, first int, factors []T) {
	var mask [tileKeys]uint8
	d := h.Dropout
	random.DropoutMaskFrom(d.Seed, d.Stream, d.P, d.First+uint64(query*h.RowLen()+first), mask[:len(factors)])
	kept := T(0)
	if d.P < 1 {
		kept = T(1 / (1 - d.P))
	}
	for j := range factors {
		factors[j] = kept * T(mask[j])
	}
}
