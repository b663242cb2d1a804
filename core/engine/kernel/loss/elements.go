package loss

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Elements is a loss of single elements: it returns the sum of their losses in float64 and,
// unless dx is nil, writes its derivatives times gradScale; gradScale 1/len(x) gives
// PyTorch's mean. dx may be x.
type Elements[T kernel.Float] func(x, target, dx []T, gradScale T) (lossSum float64)

// MSE has (x − target)².
func MSE[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	for i, v := range x {
		d := v - target[i]
		lossSum += float64(d) * float64(d)
		if dx != nil {
			dx[i] = 2 * d * gradScale
		}
	}
	return lossSum
}

// L1 has |x − target|, whose derivative is 0 at 0.
func L1[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	return elements(x, target, dx, gradScale, func(x, t T) (float64, T) {
		switch d := x - t; {
		case d > 0:
			return float64(d), 1
		case d < 0:
			return float64(-d), -1
		default:
			return float64(d), d
		}
	})
}

// Huber has half the square of a difference up to delta, and continues it as a line.
func Huber[T kernel.Float](delta T) Elements[T] {
	return func(x, target, dx []T, gradScale T) float64 {
		return elements(x, target, dx, gradScale, func(x, t T) (float64, T) {
			d, limit := float64(x-t), float64(delta)
			switch {
			case d > limit:
				return limit * (d - limit/2), delta
			case d < -limit:
				return limit * (-d - limit/2), -delta
			default:
				return d * d / 2, x - t
			}
		})
	}
}

// BCEWithLogits has −t·log σ(x) − (1 − t)·log(1 − σ(x)), in the form that does not
// overflow: max(x, 0) − x·t + log(1 + exp(−|x|)).
func BCEWithLogits[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	return elements(x, target, dx, gradScale, func(x, t T) (float64, T) {
		v := float64(x)
		e := math.Exp(-math.Abs(v))
		sigmoid := 1 / (1 + e)
		if v < 0 {
			sigmoid = e / (1 + e)
		}
		return max(v, 0) - v*float64(t) + math.Log1p(e), T(sigmoid - float64(t))
	})
}

func elements[T kernel.Float](x, target, dx []T, gradScale T, f func(x, t T) (loss float64, slope T)) (lossSum float64) {
	for i, v := range x {
		l, slope := f(v, target[i])
		lossSum += l
		if dx != nil {
			dx[i] = slope * gradScale
		}
	}
	return lossSum
}
