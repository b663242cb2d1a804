package layernorm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/tensor"
)

// Norms of rows of a half type d compute what those of float32 do of the widened values, and round once. Statistics and
// what is per column stay float32. AVX512-BF16 has kernels for rows of bfloat16; others are widened a few at a time, so
// that they stay in the L1 cache between the passes.

const (
	stageElems  = 4096  // that are widened at a time, unless four rows have more
	longestHalf = 16384 // elements of rows of which four fit into the L2 cache in float32, for a gradient twice
)

// TakesHalf reports whether rows of a half type go this way at the active level.
func TakesHalf(cols int) bool { return kernel.Current() != kernel.Generic && cols <= longestHalf }

// halfRows is how many rows are widened at a time: a multiple of four, which kernels take together.
func halfRows(cols int) int { return max(1, stageElems/4/cols) * 4 }

// HalfRoom is the float32 elements that a norm of rows of a half type works in, or a gradient in twice as many.
func HalfRoom(cols int) int { return halfRows(cols) * cols }

// direct reports whether rows have kernels of their own.
func direct(d tensor.DType, rows int) bool { return d == tensor.BF16 && rows > 0 && kernel.HasBF16() }

// width is the whole vectors of a row, the elements left, and their mask.
type width struct {
	vectors, rest int
	tail          kernel.Mask
}

func rowWidth(cols int) width {
	lanes := kernel.Lanes()
	return width{cols / lanes, cols % lanes, kernel.FirstLanes(cols % lanes)}
}

// start clears sums unless they are added to.
func start(sums []float32, accumulate bool) {
	if !accumulate {
		clear(sums)
	}
}

// stage is a few rows of a half type in float32.
type stage struct {
	d    tensor.DType
	room []float32
}

// widen reads rows.
func (s stage) widen(x []uint16) []float32 {
	wide := s.room[:len(x)]
	convert.Widen(s.d, wide, tensor.Bytes(x))
	return wide
}

// round writes rows that were computed.
func (s stage) round(y []uint16) { convert.Narrow(s.d, tensor.Bytes(y), s.room[:len(y)]) }

// LayerNormHalf is LayerNorm of rows of a half type, in room of HalfRoom elements.
func LayerNormHalf(d tensor.DType, rows, cols int, x []uint16, gamma, beta []float32, eps float64, y []uint16, mean, invstd, room []float32) {
	if direct(d, rows) && gamma != nil && beta != nil {
		layerNormRowsBF16(rows, cols, x, gamma, beta, eps, y, mean, invstd)
		return
	}
	s, step := stage{d, room}, halfRows(cols)
	for r := 0; r < rows; r += step {
		n := min(step, rows-r)
		at, size := r*cols, n*cols
		wide := s.widen(x[at:][:size])
		LayerNorm(n, cols, wide, gamma, beta, eps, wide, mean[r:], invstd[r:])
		s.round(y[at:][:size])
	}
}

// layerNormRowsBF16 is layerNormRows.
func layerNormRowsBF16(rows, cols int, x []uint16, gamma, beta []float32, eps float64, y []uint16, mean, invstd []float32) {
	var s rowStats
	w, first := rowWidth(cols), min(cols, 4)
	for r, step := 0, blockRows(cols); r < rows; r += step {
		n, at := min(step, rows-r), r*cols
		vecHalfRowMoments(n, &x[at], w.vectors, w.rest, w.tail, kernel.FirstLanes(first), 1/float32(first), 1/float32(cols), &s.mean[0], &s.scale[0], 2*cols)
		s.keep(n, eps, mean[r:], invstd[r:])
		vecHalfLayerNormApply(n, &x[at], w.vectors, w.rest, w.tail, &s.mean[0], &s.scale[0], &gamma[0], &beta[0], &y[at], 2*cols)
	}
}

// LayerNormGradHalf is LayerNormGrad of rows of a half type, in room of 2·HalfRoom elements.
func LayerNormGradHalf(d tensor.DType, rows, cols int, x, dy []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, accumulate bool, room []float32) {
	if direct(d, rows) && gamma != nil && dgamma != nil && dbeta != nil {
		start(dgamma, accumulate)
		start(dbeta, accumulate)
		w, inverse := rowWidth(cols), 1/float32(cols)
		norm.InFours(rows, func(r, rows int) {
			run, at := vecHalfLayerNormGradRows, r*cols
			if rows%4 == 0 {
				run = vecHalfLayerNormGradFours
			}
			run(rows, &x[at], &dy[at], &mean[r], &invstd[r], w.vectors, w.rest, w.tail, inverse, &gamma[0], &dgamma[0], &dbeta[0], &dx[at], 2*cols)
		})
		return
	}
	xs, ds, step := stage{d, room}, stage{d, room[HalfRoom(cols):]}, halfRows(cols)
	for r := 0; r < rows; r += step {
		n := min(step, rows-r)
		at, size := r*cols, n*cols
		wide, g := xs.widen(x[at:][:size]), ds.widen(dy[at:][:size])
		LayerNormGrad(n, cols, wide, g, mean[r:], invstd[r:], gamma, g, dgamma, dbeta, accumulate || r > 0)
		ds.round(dx[at:][:size])
	}
}

// RMSNormHalf is RMSNorm of rows of a half type, in room of HalfRoom elements.
func RMSNormHalf(d tensor.DType, rows, cols int, x []uint16, gamma []float32, eps float64, y []uint16, invrms, room []float32) {
	if direct(d, rows) && gamma != nil {
		rmsNormRowsBF16(rows, cols, x, gamma, eps, y, invrms)
		return
	}
	s, step := stage{d, room}, halfRows(cols)
	for r := 0; r < rows; r += step {
		n := min(step, rows-r)
		at, size := r*cols, n*cols
		wide := s.widen(x[at:][:size])
		RMSNorm(n, cols, wide, gamma, eps, wide, invrms[r:])
		s.round(y[at:][:size])
	}
}

// rmsNormRowsBF16 is rmsNormRows.
func rmsNormRowsBF16(rows, cols int, x []uint16, gamma []float32, eps float64, y []uint16, invrms []float32) {
	var s rowStats
	w := rowWidth(cols)
	for r, step := 0, blockRows(cols); r < rows; r += step {
		n, at := min(step, rows-r), r*cols
		vecHalfRowSquares(n, &x[at], w.vectors, w.rest, w.tail, 1/float32(cols), &s.scale[0], 2*cols)
		s.keep(n, eps, nil, invrms[r:])
		vecHalfRmsNormApply(n, &x[at], w.vectors, w.rest, w.tail, &s.scale[0], &gamma[0], &y[at], 2*cols)
	}
}

// RMSNormGradHalf is RMSNormGrad of rows of a half type, in room of 2·HalfRoom elements.
func RMSNormGradHalf(d tensor.DType, rows, cols int, x, dy []uint16, invrms, gamma []float32, dx []uint16, dgamma []float32, accumulate bool, room []float32) {
	if direct(d, rows) && gamma != nil && dgamma != nil {
		start(dgamma, accumulate)
		w, inverse := rowWidth(cols), 1/float32(cols)
		norm.InFours(rows, func(r, rows int) {
			run, at := vecHalfRmsNormGradRows, r*cols
			if rows%4 == 0 {
				run = vecHalfRmsNormGradFours
			}
			run(rows, &x[at], &dy[at], &invrms[r], w.vectors, w.rest, w.tail, inverse, &gamma[0], &dgamma[0], &dx[at], 2*cols)
		})
		return
	}
	xs, ds, step := stage{d, room}, stage{d, room[HalfRoom(cols):]}, halfRows(cols)
	for r := 0; r < rows; r += step {
		n := min(step, rows-r)
		at, size := r*cols, n*cols
		wide, g := xs.widen(x[at:][:size]), ds.widen(dy[at:][:size])
		RMSNormGrad(n, cols, wide, g, invrms[r:], gamma, g, dgamma, accumulate || r > 0)
		ds.round(dx[at:][:size])
	}
}
