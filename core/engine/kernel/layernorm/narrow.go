package layernorm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
)

// Rows of a few elements, and their gradients, have kernels that hold four of them in registers, in vectors of eight lanes at every level. Their
// passes go over some rows at a time, which stay in the L1 cache.

const (
	narrow      = kernel.Block / 2 // elements of a vector
	narrowLeast = 4                // of the shortest such rows: what is stored of the third ends before the fourth does
	narrowMost  = 2 * narrow       // of the longest ones
	fours       = 4                // rows that are computed together
)

// isNarrow reports whether rows have these kernels.
func isNarrow(cols int) bool { return narrowLeast <= cols && cols <= narrowMost }

// narrowPass is a call: a multiple of four rows of bytes, of each of which there are a mean, a scale and, for gradients, two sums. gamma and
// beta, and their gradients, have room for whole vectors. The layout is known to gen/norm/narrow.go.
type narrowPass struct {
	rows, bytes                int
	vectors, rest              int         // of a row, and elements in the last one
	tail                       kernel.Mask // of the last vector
	x, dy, out                 *float32
	mean, scale, dots, sums    *float32
	gamma, beta, dgamma, dbeta *float32
	inverse                    float32 // 1 over the elements of a row
}

// passOver is a pass over rows of cols elements.
func passOver(cols int) narrowPass {
	rest := (cols-1)%narrow + 1
	return narrowPass{bytes: 4 * cols, vectors: kernel.CeilDiv(cols, narrow), rest: rest, tail: kernel.FirstOfEight(rest), inverse: 1 / float32(cols)}
}

// rowsOfPass is how many of the rows that are left a pass goes over: fours, until there are fewer.
func rowsOfPass(left int) int {
	if left < fours {
		return left
	}
	return min(rowBlock, left&^(fours-1))
}

// narrowNorm is LayerNorm of narrow rows, or RMSNorm if there is no mean.
func narrowNorm(rows, cols int, x, gamma, beta []float32, eps float64, y, mean, scale []float32) {
	var s rowStats
	var columns [2][narrowMost]float32
	var few [fours * narrowMost]float32
	copy(columns[0][:], gamma)
	copy(columns[1][:], beta)
	p := passOver(cols)
	p.mean, p.scale, p.gamma, p.beta = &s.mean[0], &s.scale[0], &columns[0][0], &columns[1][0]
	for r, n := 0, 0; r < rows; r += n {
		n = rowsOfPass(rows - r)
		from, to := x[r*cols:][:n*cols], y[r*cols:][:n*cols]
		p.rows, p.x, p.out = n, &from[0], &to[0]
		if n < fours {
			copy(few[:], from)
			p.rows, p.x, p.out = fours, &few[0], &few[0]
		}
		if mean == nil {
			vecNarrowSquares(&p)
			norm.InverseRoots(s.scale[:p.rows], eps)
			vecNarrowRMSNormApply(&p)
		} else {
			vecNarrowMoments(&p)
			norm.InverseRoots(s.scale[:p.rows], eps)
			vecNarrowLayerNormApply(&p)
			copy(mean[r:], s.mean[:n])
		}
		copy(scale[r:], s.scale[:n])
		if n < fours {
			copy(to, few[:])
		}
	}
}

// narrowGrad is LayerNormGrad of narrow rows, or RMSNormGrad if there is no mean, and adds to dgamma and dbeta.
func narrowGrad(rows, cols int, x, dy, mean, scale, gamma, dx, dgamma, dbeta []float32) {
	var dots, sums [rowBlock]float32
	var columns [3][narrowMost]float32
	copy(columns[0][:], gamma)
	p := passOver(cols)
	p.dots, p.sums, p.gamma, p.dgamma, p.dbeta = &dots[0], &sums[0], &columns[0][0], &columns[1][0], &columns[2][0]
	whole := rows &^ (fours - 1)
	for r := 0; r < whole; r += rowBlock {
		at := r * cols
		p.rows, p.x, p.dy, p.out, p.scale = min(rowBlock, whole-r), &x[at], &dy[at], &dx[at], &scale[r]
		if mean != nil {
			p.mean = &mean[r]
		}
		p.grad()
	}
	if whole < rows {
		var few fewRows
		at, end := whole*cols, rows*cols
		copy(few.x[:], x[at:end])
		copy(few.dy[:], dy[at:end])
		copy(few.scale[:], scale[whole:rows])
		if mean != nil {
			p.mean = &few.mean[0]
			copy(few.mean[:], mean[whole:rows])
		}
		p.rows, p.x, p.dy, p.out, p.scale = fours, &few.x[0], &few.dy[0], &few.dy[0], &few.scale[0]
		p.grad()
		copy(dx[at:end], few.dy[:])
	}
	for j := range dgamma {
		dgamma[j] += columns[1][j]
	}
	for j := range dbeta {
		dbeta[j] += columns[2][j]
	}
}

// fewRows are up to three rows that are left, and empty ones behind them.
type fewRows struct {
	x, dy       [fours * narrowMost]float32
	mean, scale [fours]float32
}

// grad runs both passes of a gradient.
func (p *narrowPass) grad() {
	if p.mean == nil {
		vecNarrowRMSNormGradSums(p)
		vecNarrowRMSNormGradInput(p)
		return
	}
	vecNarrowLayerNormGradSums(p)
	vecNarrowLayerNormGradInput(p)
}
