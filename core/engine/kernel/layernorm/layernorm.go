package layernorm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

// LayerNorm normalises each row of x [rows, cols] to mean 0 and (biased)
// variance 1 and applies gamma and beta [cols] (nil for none); mean and invstd
// [rows] are kept for the gradient. y may be x. Ba, Kiros and Hinton, "Layer Normalization" (2016).
func LayerNorm[T kernel.Float](rows, cols int, x, gamma, beta []T, eps float64, y, mean, invstd []T) {
	if kernel.HasVectors[T]() && gamma != nil && beta != nil {
		layerNormRows(rows, cols, kernel.As32(x), kernel.As32(gamma), kernel.As32(beta), eps, kernel.As32(y), kernel.As32(mean), kernel.As32(invstd))
		return
	}
	for r := range rows {
		xr, yr := x[r*cols:][:cols], y[r*cols:][:cols]
		mu := reduce.Sum64(xr) / float64(cols)
		variance := reduce.SumSqDiff64(xr, mu) / float64(cols)
		mean[r], invstd[r] = T(mu), T(1/math.Sqrt(variance+eps))
		norm.SubMulAdd(xr, mean[r], invstd[r], 0, yr)
		if gamma != nil {
			elementwise.Mul(yr, gamma, yr)
		}
		if beta != nil {
			elementwise.AddTo(yr, beta)
		}
	}
}

// rowBlock is the rows whose statistics are taken before they are normalised, which they are from the L1 cache.
const (
	rowBlock      = 64
	rowBlockElems = 4096
)

// blockRows is how many rows of cols elements a block has, a multiple of four.
func blockRows(cols int) int { return max(1, min(rowBlock, rowBlockElems/cols)/4) * 4 }

// rowStats are the statistics of a block's rows.
type rowStats struct{ mean, scale [rowBlock]float32 }

// keep makes scales 1/√(scale + eps), copies what n rows have, and lets the last stand for those that are missing to fours, as kernels do with the
// row itself. An RMS norm has no mean to copy.
func (s *rowStats) keep(n int, eps float64, mean, scale []float32) {
	norm.InverseRoots(s.scale[:n], eps)
	copy(mean, s.mean[:n])
	copy(scale, s.scale[:n])
	for i := n; i%4 > 0; i++ {
		s.mean[i], s.scale[i] = s.mean[n-1], s.scale[n-1]
	}
}

// layerNormRows is LayerNorm in vectors.
func layerNormRows(rows, cols int, x, gamma, beta []float32, eps float64, y, mean, invstd []float32) {
	if isNarrow(cols) {
		narrowNorm(rows, cols, x, gamma, beta, eps, y, mean, invstd)
		return
	}
	var s rowStats
	w := rowWidth(cols)
	for r, step := 0, blockRows(cols); r < rows; r += step {
		n, at := min(step, rows-r), r*cols
		norm.RowMoments(cols, x[at:], s.mean[:n], s.scale[:n])
		s.keep(n, eps, mean[r:], invstd[r:])
		vecLayerNormApply(n, &x[at], w.vectors, w.rest, w.tail, &s.mean[0], &s.scale[0], &gamma[0], &beta[0], &y[at], 4*cols)
	}
}

// LayerNormGrad overwrites dx, and writes or adds dgamma and dbeta (each may be
// nil, as gamma may). dx may be dy.
func LayerNormGrad[T kernel.Float](rows, cols int, x, dy, mean, invstd, gamma, dx, dgamma, dbeta []T, accumulate bool) {
	if !accumulate {
		clear(dgamma)
		clear(dbeta)
	}
	if kernel.HasVectors[T]() && rows > 0 && gamma != nil && dgamma != nil && dbeta != nil {
		if isNarrow(cols) {
			narrowGrad(rows, cols, kernel.As32(x), kernel.As32(dy), kernel.As32(mean), kernel.As32(invstd), kernel.As32(gamma), kernel.As32(dx), kernel.As32(dgamma), kernel.As32(dbeta))
			return
		}
		w := rowWidth(cols)
		norm.InFours(rows, func(r, rows int) {
			run := vecLayerNormGradRows
			if rows%4 == 0 {
				run = vecLayerNormGradFours
			}
			at := r * cols
			run(rows, kernel.Ptr32(x[at:]), kernel.Ptr32(dy[at:]), kernel.Ptr32(mean[r:]), kernel.Ptr32(invstd[r:]), w.vectors, w.rest, w.tail, 1/float32(cols),
				kernel.Ptr32(gamma), kernel.Ptr32(dgamma), kernel.Ptr32(dbeta), kernel.Ptr32(dx[at:]), 4*cols)
		})
		return
	}
	for r := range rows {
		xr, dyr := x[r*cols:][:cols], dy[r*cols:][:cols]
		layerNormParamGrad(xr, dyr, mean[r], invstd[r], dgamma, dbeta)
		layerNormInputGrad(xr, dyr, mean[r], invstd[r], gamma, dx[r*cols:][:cols])
	}
}

// GradParts is in how many parts a gradient over so many rows adds up those of gamma and beta, whatever the
// number of threads: sums round by their order.
func GradParts(rows, cols int) int {
	const partElems, mostParts = 1 << 15, 16
	return max(1, min(mostParts, rows*cols/partElems))
}

func layerNormParamGrad[T kernel.Float](x, dy []T, mean, invstd T, dgamma, dbeta []T) {
	if dgamma != nil {
		for j, g := range dy {
			dgamma[j] += g * (x[j] - mean) * invstd
		}
	}
	if dbeta != nil {
		elementwise.AddTo(dbeta[:len(dy)], dy)
	}
}

func layerNormInputGrad[T kernel.Float](x, dy []T, mean, invstd T, gamma, dx []T) {
	if gamma != nil {
		elementwise.Mul(dy, gamma, dx)
		dy = dx
	}
	sum, dot := reduce.SumAndDot64(dy, x, mean)
	count := float64(len(x))
	slope := dot / count * float64(invstd) * float64(invstd)
	norm.GradRow(x, dy, mean, T(sum/count), T(slope), invstd, dx)
}
