package layernorm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
)

// RMSNorm divides each row of x [rows, cols] by the root of its mean square and
// applies gamma [cols] (nil for none); invrms [rows] is kept for the gradient.
// y may be x. Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
func RMSNorm[T kernel.Float](rows, cols int, x, gamma []T, eps float64, y, invrms []T) {
	if kernel.HasVectors[T]() && gamma != nil {
		rmsNormRows(rows, cols, kernel.As32(x), kernel.As32(gamma), eps, kernel.As32(y), kernel.As32(invrms))
		return
	}
	elementwise.DotRows(rows, cols, x, x, invrms)
	for r := range rows {
		invrms[r] = T(1 / math.Sqrt(float64(invrms[r])/float64(cols)+eps))
	}
	elementwise.MulRows(rows, cols, x, invrms, y)
	for r := range rows {
		if gamma != nil {
			elementwise.Mul(y[r*cols:][:cols], gamma, y[r*cols:][:cols])
		}
	}
}

// rmsNormRows is RMSNorm in vectors.
func rmsNormRows(rows, cols int, x, gamma []float32, eps float64, y, invrms []float32) {
	if isNarrow(cols) {
		narrowNorm(rows, cols, x, gamma, nil, eps, y, nil, invrms)
		return
	}
	var s rowStats
	w := rowWidth(cols)
	for r, step := 0, blockRows(cols); r < rows; r += step {
		count, at := min(step, rows-r), r*cols
		vecRowSquares(count, &x[at], w.vectors, w.rest, w.tail, 1/float32(cols), &s.scale[0], 4*cols)
		s.keep(count, eps, nil, invrms[r:])
		vecRmsNormApply(count, &x[at], w.vectors, w.rest, w.tail, &s.scale[0], &gamma[0], &y[at], 4*cols)
	}
}

// RMSNormGrad overwrites dx, and writes or adds dgamma (nil where it is not
// wanted, as gamma may be). dx may be dy.
func RMSNormGrad[T kernel.Float](rows, cols int, x, dy, invrms, gamma, dx, dgamma []T, accumulate bool) {
	if !accumulate {
		clear(dgamma)
	}
	if kernel.HasVectors[T]() && rows > 0 && gamma != nil && dgamma != nil {
		if isNarrow(cols) {
			narrowGrad(rows, cols, kernel.As32(x), kernel.As32(dy), nil, kernel.As32(invrms), kernel.As32(gamma), kernel.As32(dx), kernel.As32(dgamma), nil)
			return
		}
		w := rowWidth(cols)
		norm.InFours(rows, func(r, rows int) {
			run := vecRmsNormGradRows
			if rows%4 == 0 {
				run = vecRmsNormGradFours
			}
			at := r * cols
			run(rows, kernel.Ptr32(x[at:]), kernel.Ptr32(dy[at:]), kernel.Ptr32(invrms[r:]), w.vectors, w.rest, w.tail, 1/float32(cols),
				kernel.Ptr32(gamma), kernel.Ptr32(dgamma), kernel.Ptr32(dx[at:]), 4*cols)
		})
		return
	}
	var dot [1]T
	for r, inv := range invrms[:rows] {
		xr, g, d := x[r*cols:][:cols], dy[r*cols:][:cols], dx[r*cols:][:cols]
		if dgamma != nil {
			addScaledProducts(dgamma, inv, g, xr)
		}
		if gamma != nil {
			elementwise.Mul(g, gamma, d)
		} else {
			copy(d, g)
		}
		elementwise.DotRows(1, cols, d, xr, dot[:])
		elementwise.Scale(d, inv)
		elementwise.Axpy(d, -inv*inv*inv*dot[0]/T(cols), xr)
	}
}

// addScaledProducts adds factor·a·b to sum, a block at a time.
func addScaledProducts[T kernel.Float](sum []T, factor T, a, b []T) {
	const block = 512
	var products [block]T
	for len(sum) > 0 {
		n := min(block, len(sum))
		elementwise.Mul(a[:n], b[:n], products[:n])
		elementwise.Axpy(sum[:n], factor, products[:n])
		sum, a, b = sum[n:], a[n:], b[n:]
	}
}
