package cpu

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Softplus, softplus[float32], softplus[float64], softplusGrad[float32], softplusGrad[float64])
}

// softplus computes y = log(1 + exp(beta·x)) / beta, and x where beta·x is above
// the threshold. y may be x.
func softplus[T kernel.Float](x, y []T, s op.Scalars) {
	beta, threshold, y := s[0], s[1], y[:len(x)]
	for i, v := range x {
		if t := beta * float64(v); t > threshold {
			y[i] = v
		} else {
			y[i] = T(math.Log1p(math.Exp(t)) / beta)
		}
	}
}

// softplusGrad computes dx = dy·σ(beta·x), and dy above the threshold. dx may be dy.
func softplusGrad[T kernel.Float](x, dy, dx []T, s op.Scalars) {
	beta, threshold, dy, dx := s[0], s[1], dy[:len(x)], dx[:len(x)]
	for i, v := range x {
		if t := beta * float64(v); t > threshold {
			dx[i] = dy[i]
		} else {
			dx[i] = T(float64(dy[i]) / (1 + math.Exp(-t)))
		}
	}
}
