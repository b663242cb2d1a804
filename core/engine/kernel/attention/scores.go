package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// A tile's scores are q·kᵀ in rows of tileKeys. Kernels take them in bands of bandRows rows,
// of which those of a causal attention see nearly the same number of keys, and read no
// vector that none of a band sees.

const bandRows = 16

// lanes count the elements of a vector.
var lanes = [kernel.Block]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// band is some rows of a tile, all of which see at most some keys.
type band struct{ first, rows, keys int }

// bands calls f for the bands of a tile.
func (h *Head) bands(t tile, f func(b band)) {
	for i := 0; i < t.queries; i += bandRows {
		n := min(bandRows, t.queries-i)
		f(band{i, n, h.seen(t, i+n-1)})
	}
}

// vectors are those of a band that are seen, and the rest of the tile's.
func (b band) vectors(t tile) (seen, rest int) {
	n := kernel.Lanes()
	seen = kernel.CeilDiv(b.keys, n)
	return seen, kernel.CeilDiv(t.keys, n) - seen
}

// steps says of a band's rows how many keys the first sees, and how many more each that follows.
func (h *Head) steps(t tile, b band) (seen, step float32) {
	if !h.Causal {
		return float32(t.keys), 0
	}
	return float32(h.First + t.q + b.first + 1 - t.k), 1
}

// raisePeaks raises the peaks of a tile's queries to their largest score times scale.
func raisePeaks[T kernel.Float](h *Head, t tile, x []T, scale T, peaks []T) {
	if !kernel.HasVectors[T]() {
		for i := range t.queries {
			for _, v := range x[i*tileKeys:][:h.seen(t, i)] {
				peaks[i] = max(peaks[i], scaled(v, scale))
			}
		}
		return
	}
	h.bands(t, func(b band) {
		vectors, _ := b.vectors(t)
		seen, step := h.steps(t, b)
		vecScorePeaks(b.rows, vectors, kernel.Ptr32(x[b.first*tileKeys:]), 4*tileKeys, &lanes[0], seen, step, float32(t.keys), float32(scale), kernel.Ptr32(peaks[b.first:]))
	})
}

// scaled is a score that counts for a peak: a NaN does not.
func scaled[T kernel.Float](v, scale T) T {
	if v != v {
		return T(math.Inf(-1))
	}
	return v * scale
}

// expScores replaces scores by exp(x·scale − shift), and by 0 what a query does not see, and adds
// each row to its sum.
func expScores[T kernel.Float](h *Head, t tile, x []T, scale T, shifts, sums []T) {
	if !kernel.HasVectors[T]() {
		for i := range t.queries {
			row, n := x[i*tileKeys:][:t.keys], h.seen(t, i)
			clear(row[n:])
			for j, v := range row[:n] {
				row[j] = exp(v*scale - shifts[i])
				sums[i] += row[j]
			}
		}
		return
	}
	h.bands(t, func(b band) {
		vectors, rest := b.vectors(t)
		seen, step := h.steps(t, b)
		vecScoreExps(b.rows, vectors, rest, kernel.Ptr32(x[b.first*tileKeys:]), 4*tileKeys, &lanes[0], seen, step, float32(t.keys), float32(scale), kernel.Ptr32(shifts[b.first:]), kernel.Ptr32(sums[b.first:]))
	})
}

// closeSums adds to lse the logarithms of sums, which are 1 or more, and inverts sums.
func closeSums[T kernel.Float](lse, sums []T) {
	if kernel.HasVectors[T]() {
		n := kernel.Lanes()
		vecCloseSums(len(sums)/n, len(sums)%n, kernel.FirstLanes(len(sums)%n), kernel.Ptr32(lse), kernel.Ptr32(sums))
		return
	}
	for row, sum := range sums {
		lse[row] += T(math.Log(float64(sum)))
		sums[row] = 1 / sum
	}
}

func exp[T kernel.Float](x T) T {
	if kernel.Is32[T]() {
		return T(elementwise.Exp32(float32(x)))
	}
	return T(math.Exp(float64(x)))
}

// slopeScores replaces the gradients s of probabilities p by those of scores.
func slopeScores[T kernel.Float](h *Head, t tile, p, s []T, scale T, dots []T) {
	if !kernel.HasVectors[T]() {
		for i := range t.queries {
			n := h.seen(t, i)
			g, w := s[i*tileKeys:][:t.keys], p[i*tileKeys:]
			clear(g[n:])
			for j, v := range g[:n] {
				g[j] = (v - dots[i]) * (w[j] * scale)
			}
		}
		return
	}
	h.bands(t, func(b band) {
		vectors, rest := b.vectors(t)
		vecScoreSlopes(b.rows, vectors, rest, kernel.Ptr32(p[b.first*tileKeys:]), kernel.Ptr32(s[b.first*tileKeys:]), 4*tileKeys, float32(scale), kernel.Ptr32(dots[b.first:]))
	})
}
