package loss

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Elements is a loss of single elements: it returns the sum of their losses in float64 and,
// unless dx is nil, writes its derivatives times gradScale; gradScale 1/len(x) gives
// PyTorch's mean. dx may be x. The loss of element i goes to sum i mod 8, at every level.
type Elements[T kernel.Float] func(x, target, dx []T, gradScale T) (lossSum float64)

// MSE has (x − target)².
func MSE[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	return elements(x, target, dx, gradScale, vectors{of: squares}, func(x, t T) (float64, T) {
		d := x - t
		return float64(d) * float64(d), 2 * d
	})
}

// L1 has |x − target|, whose derivative is 0 at 0.
func L1[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	return elements(x, target, dx, gradScale, vectors{of: distances}, func(x, t T) (float64, T) {
		switch d := x - t; {
		case d > 0:
			return float64(d), 1
		case d < 0:
			return float64(-d), -1
		default:
			return math.Abs(float64(d)), d
		}
	})
}

// Huber has half the square of a difference up to delta, and continues it as a line.
func Huber[T kernel.Float](delta T) Elements[T] {
	return func(x, target, dx []T, gradScale T) float64 {
		return elements(x, target, dx, gradScale, vectors{huber, float32(delta)}, func(x, t T) (float64, T) {
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
	return elements(x, target, dx, gradScale, vectors{of: crossEntropies}, func(x, t T) (float64, T) {
		v := float64(x)
		sigmoid, log := logistic(x)
		return max(v, 0) - v*float64(t) + log, sigmoid - t
	})
}

// logistic gives σ(x) and log(1 + exp(−|x|)).
func logistic[T kernel.Float](x T) (sigmoid T, log float64) {
	if kernel.Is32[T]() {
		s, l := elementwise.Logistic32(float32(x))
		return T(s), float64(l)
	}
	v := float64(x)
	e := math.Exp(-math.Abs(v))
	if sigmoid = T(1 / (1 + e)); v < 0 {
		sigmoid = T(e / (1 + e))
	}
	return sigmoid, math.Log1p(e)
}

// elements adds up what f gives for each element, of float32 by vectors as far as they go.
func elements[T kernel.Float](x, target, dx []T, gradScale T, vec vectors, f func(x, t T) (loss float64, slope T)) (lossSum float64) {
	var sums [8]float64
	head := kernel.HeadOf[T](len(x))
	if dx != nil && head > 0 {
		vec.run(kernel.As32(x[:head]), kernel.As32(target), kernel.As32(dx), &sums, float32(gradScale))
	} else if head > 0 {
		vec.withoutGradient(kernel.As32(x[:head]), kernel.As32(target), &sums)
	}
	for i := head; i < len(x); i++ {
		l, slope := f(x[i], target[i])
		sums[i%len(sums)] += l
		if dx != nil {
			dx[i] = slope * gradScale
		}
	}
	for _, s := range sums {
		lossSum += s
	}
	return lossSum
}

// vectors are the vector kernel of a loss.
type vectors struct {
	of    int
	delta float32 // of huber
}

const (
	squares = iota
	distances
	huber
	crossEntropies
)

func (v vectors) run(x, target, dx []float32, sums *[8]float64, scale float32) {
	switch v.of {
	case squares:
		vecMseLoss(&x[0], &target[0], &dx[0], &sums[0], scale, len(x))
	case distances:
		vecL1Loss(&x[0], &target[0], &dx[0], &sums[0], scale, len(x))
	case huber:
		vecHuberLoss(&x[0], &target[0], &dx[0], &sums[0], v.delta, scale, len(x))
	case crossEntropies:
		vecBceLoss(&x[0], &target[0], &dx[0], &sums[0], scale, len(x))
	}
}

// withoutGradient leaves derivatives in the cache, a few at a time.
func (v vectors) withoutGradient(x, target []float32, sums *[8]float64) {
	var dx [64 * kernel.Block]float32
	for i := 0; i < len(x); i += len(dx) {
		v.run(x[i:min(i+len(dx), len(x))], target[i:], dx[:], sums, 1)
	}
}
