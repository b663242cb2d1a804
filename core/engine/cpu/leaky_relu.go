package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.LeakyReLU, leakyReLU[float32], leakyReLU[float64], leakyReLUGrad[float32], leakyReLUGrad[float64])
}

// leakyReLU computes y = x where x > 0, else slope·x. y may be x.
func leakyReLU[T kernel.Float](x, y []T, s op.Scalars) {
	slope, y := T(s[0]), y[:len(x)]
	for i, v := range x {
		if !(v > 0) {
			v *= slope
		}
		y[i] = v
	}
}

// leakyReLUGrad computes dx = dy where x > 0, else slope·dy. dx may be dy.
func leakyReLUGrad[T kernel.Float](x, dy, dx []T, s op.Scalars) {
	slope, dy, dx := T(s[0]), dy[:len(x)], dx[:len(x)]
	for i, v := range x {
		d := dy[i]
		if !(v > 0) {
			d *= slope
		}
		dx[i] = d
	}
}
