package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() { pointwise(op.SiLU, silu[float32], silu[float64], siluGrad[float32], siluGrad[float64]) }

// silu computes y = x·σ(x). y may be x.
func silu[T kernel.Float](x, y []T, _ op.Scalars) {
	var s [sigmoids]T
	for at := 0; at < len(x); at += sigmoids {
		for i, v := range sigmoidsOf(x, at, &s) {
			y[at+i] = x[at+i] * v
		}
	}
}

// siluGrad computes dx = dy·σ(x)·(1 + x·(1−σ(x))). dx may be dy.
func siluGrad[T kernel.Float](x, dy, dx []T, _ op.Scalars) {
	var s [sigmoids]T
	for at := 0; at < len(x); at += sigmoids {
		for i, v := range sigmoidsOf(x, at, &s) {
			dx[at+i] = dy[at+i] * v * (1 + x[at+i]*(1-v))
		}
	}
}

// sigmoids is how many a vector kernel makes at a time.
const sigmoids = 256

// sigmoidsOf are those of x from an index on.
func sigmoidsOf[T kernel.Float](x []T, at int, s *[sigmoids]T) []T {
	n := min(len(x)-at, sigmoids)
	elementwise.Sigmoid(x[at:at+n], s[:n])
	return s[:n]
}
