package elementwise

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// ReLU computes y = max(x, 0); NaN stays NaN. y may be x.
func ReLU[T kernel.Float](x, y []T) {
	y = y[:len(x)]
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		vecReLU(kernel.Ptr32(x), kernel.Ptr32(y), n)
		x, y = x[n:], y[n:]
	}
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		y[i] = v
	}
}

// ReLUGrad computes dx = 0 where y ≤ 0, else dy: a NaN in y lets dy through, as
// PyTorch's threshold_backward does. dx may be dy.
func ReLUGrad[T kernel.Float](y, dy, dx []T) {
	dy, dx = dy[:len(y)], dx[:len(y)]
	if n := kernel.HeadOf[T](len(y)); n > 0 {
		vecReLUGrad(kernel.Ptr32(y), kernel.Ptr32(dy), kernel.Ptr32(dx), n)
		y, dy, dx = y[n:], dy[n:], dx[n:]
	}
	for i, v := range y {
		if v <= 0 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

// The constants of GELU's tanh form: sqrt(2/π) and the cubic coefficient.
const (
	geluScale = math.Sqrt2 / math.SqrtPi
	geluCubic = 0.044715
)

// GELU computes y = x·Φ(x) (Hendrycks and Gimpel, 2016), with the tanh
// approximation of Φ if asked for. y may be x.
func GELU[T kernel.Float](x, y []T, tanhApprox bool) {
	for i, v := range x {
		f := float64(v)
		if tanhApprox {
			y[i] = T(0.5 * f * (1 + math.Tanh(geluScale*(f+geluCubic*f*f*f))))
		} else {
			y[i] = T(0.5 * f * (1 + math.Erf(f/math.Sqrt2)))
		}
	}
}

// GELUGrad computes dx = dy·GELU'(x). dx may be dy.
func GELUGrad[T kernel.Float](x, dy, dx []T, tanhApprox bool) {
	for i, v := range x {
		dx[i] = T(float64(dy[i]) * geluSlope(float64(v), tanhApprox))
	}
}

func geluSlope(x float64, tanhApprox bool) float64 {
	if !tanhApprox {
		density := math.Exp(-0.5*x*x) / (math.Sqrt2 * math.SqrtPi)
		return 0.5*(1+math.Erf(x/math.Sqrt2)) + x*density
	}
	t := math.Tanh(geluScale * (x + geluCubic*x*x*x))
	return 0.5*(1+t) + 0.5*x*(1-t*t)*geluScale*(1+3*geluCubic*x*x)
}

// Sigmoid computes y = 1/(1+exp(−x)). y may be x.
func Sigmoid[T kernel.Float](x, y []T) {
	y = y[:len(x)]
	if kernel.Vectors[T](len(x)) {
		groups, full, tail := kernel.Octets(len(x))
		vecSigmoid(groups, full, tail, kernel.Ptr32(x), kernel.Ptr32(y))
		return
	}
	for i, v := range x {
		if kernel.Is32[T]() {
			y[i] = T(sigmoidOf(float64(v)))
		} else {
			y[i] = T(1 / (1 + math.Exp(-float64(v))))
		}
	}
}

// SigmoidGrad computes dx = dy·y·(1−y) from the output y. dx may be dy.
func SigmoidGrad[T kernel.Float](y, dy, dx []T) {
	for i, v := range y {
		dx[i] = dy[i] * v * (1 - v)
	}
}

// Tanh computes y = tanh(x). y may be x.
func Tanh[T kernel.Float](x, y []T) {
	y = y[:len(x)]
	if kernel.Vectors[T](len(x)) {
		groups, full, tail := kernel.Octets(len(x))
		vecTanh(groups, full, tail, kernel.Ptr32(x), kernel.Ptr32(y))
		return
	}
	for i, v := range x {
		if kernel.Is32[T]() {
			y[i] = T(tanhOf(float64(v)))
		} else {
			y[i] = T(math.Tanh(float64(v)))
		}
	}
}

// TanhGrad computes dx = dy·(1−y²) from the output y. dx may be dy.
func TanhGrad[T kernel.Float](y, dy, dx []T) {
	for i, v := range y {
		dx[i] = dy[i] * (1 - v*v)
	}
}
