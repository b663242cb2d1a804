package kernel

import "math"

// LayerNorm normalises each row of x [rows, cols] to mean 0 and (biased)
// variance 1 and applies gamma and beta [cols] (nil for none); mean and invstd
// [rows] are kept for the gradient. Ba, Kiros and Hinton, "Layer Normalization" (2016).
func LayerNorm[T Float](rows, cols int, x, gamma, beta []T, eps float64, y, mean, invstd []T) {
	for r := range rows {
		xr, yr := x[r*cols:][:cols], y[r*cols:][:cols]
		mu := sum64(xr) / float64(cols)
		variance := sumSqDiff64(xr, mu) / float64(cols)
		mean[r], invstd[r] = T(mu), T(1/math.Sqrt(variance+eps))
		subMulAdd(xr, mean[r], invstd[r], 0, yr)
		if gamma != nil {
			Mul(yr, gamma, yr)
		}
		if beta != nil {
			AddTo(yr, beta)
		}
	}
}

// LayerNormGrad overwrites dx, and writes or adds dgamma and dbeta (each may be
// nil, as gamma may). dx may be dy.
func LayerNormGrad[T Float](rows, cols int, x, dy, mean, invstd, gamma, dx, dgamma, dbeta []T, accumulate bool) {
	if !accumulate {
		clear(dgamma)
		clear(dbeta)
	}
	for r := range rows {
		xr, dyr := x[r*cols:][:cols], dy[r*cols:][:cols]
		layerNormParamGrad(xr, dyr, mean[r], invstd[r], dgamma, dbeta)
		layerNormInputGrad(xr, dyr, mean[r], invstd[r], gamma, dx[r*cols:][:cols])
	}
}

func layerNormParamGrad[T Float](x, dy []T, mean, invstd T, dgamma, dbeta []T) {
	if dgamma != nil {
		for j, g := range dy {
			dgamma[j] += g * (x[j] - mean) * invstd
		}
	}
	if dbeta != nil {
		AddTo(dbeta[:len(dy)], dy)
	}
}

func layerNormInputGrad[T Float](x, dy []T, mean, invstd T, gamma, dx []T) {
	if gamma != nil {
		Mul(dy, gamma, dx)
		dy = dx
	}
	sum, dot := sumAndDot64(dy, x, mean)
	count := float64(len(x))
	slope := dot / count * float64(invstd) * float64(invstd)
	normGrad(x, dy, mean, T(sum/count), T(slope), invstd, dx)
}

// Embedding copies the rows of table [·, dim] that indices name to y [len(indices), dim].
func Embedding[T Float](indices []int32, dim int, table, y []T) {
	for i, at := range indices {
		copy(y[i*dim:][:dim], table[int(at)*dim:][:dim])
	}
}

// EmbeddingGrad adds each row of dy [len(indices), dim] to the row of dtable that
// its index names; without accumulate, dtable is cleared first.
func EmbeddingGrad[T Float](indices []int32, dim int, dy, dtable []T, accumulate bool) {
	if !accumulate {
		clear(dtable)
	}
	for i, at := range indices {
		AddTo(dtable[int(at)*dim:][:dim], dy[i*dim:][:dim])
	}
}
