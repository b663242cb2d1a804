package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
)

// ForwardScratch is the number of scratch elements that Forward needs.
func ForwardScratch(h Head) int {
	return padded(tileQueries*tileKeys, h.Queries, h.keyPanels()) + h.rotatedScratch() + h.gemmScratch()
}

// Forward writes a head's output rows, and of each query log Σexp of its scores to lse.
// positions is nil unless h.Rotary. out must not overlap the inputs. scratch holds ForwardScratch elements.
func Forward[T kernel.Float](h Head, positions *Rotary[T], q, k, v, out Rows[T], lse, scratch []T) {
	r := room[T](scratch)
	scores, sums := r.take(tileQueries*tileKeys), r.take(h.Queries)
	q = rotated(positions, q, h.Queries, &r)
	keys := keyRows[T]{Rows: rotated(positions, k, h.Keys, &r), panels: r.take(h.keyPanels())}
	clear(sums)
	elementwise.Fill(lse[:h.Queries], T(math.Inf(-1)))
	scale := T(h.scale())
	h.tiles(func(t tile) {
		scoresOf(&h, t, q, &keys, scores, r)
		peaks := lse[t.q:][:t.queries]
		var before [tileQueries]T
		copy(before[:], peaks)
		raisePeaks(&h, t, scores, scale, peaks)
		if t.k > 0 {
			for i, peak := range peaks {
				if peak > before[i] {
					shrink := exp(before[i] - peak)
					elementwise.Scale(out.row(t.q+i, h.Dim), shrink)
					sums[t.q+i] *= shrink
				}
			}
		}
		expScores(&h, t, scores, scale, peaks, sums[t.q:])
		if h.Dropout.P > 0 {
			drop(&h, t, scores)
		}
		var add T
		if t.k > 0 {
			add = 1
		}
		byQuery(&h, t, scores, v, add, out, r)
	}, false)
	closeSums(lse[:h.Queries], sums)
	scaleRows(h.Dim, out, sums)
}

// scaleRows multiplies as many rows of dim elements as there are factors.
func scaleRows[T kernel.Float](dim int, x Rows[T], factors []T) {
	if kernel.HasVectors[T]() {
		n := kernel.Lanes()
		vecScaleRows(len(factors), kernel.Ptr32(x.Data), dim/n, dim%n, kernel.FirstLanes(dim%n), kernel.Ptr32(factors), 0, 4*x.Stride)
		return
	}
	for row, factor := range factors {
		elementwise.Scale(x.row(row, dim), factor)
	}
}

// drop multiplies what lies as a tile's probabilities by their dropout.
func drop[T kernel.Float](h *Head, t tile, x []T) {
	d := h.Dropout
	kept := T(0)
	if d.P < 1 {
		kept = T(1 / (1 - d.P))
	}
	for i := range t.queries {
		var mask [tileKeys]uint8
		if n := h.seen(t, i); n > 0 {
			random.DropoutMaskFrom(d.Seed, d.Stream, d.P, d.First+uint64((t.q+i)*h.RowLen()+t.k), mask[:n])
			row := x[i*tileKeys:][:n]
			elementwise.Dropout(mask[:n], kept, row, row)
		}
	}
}
