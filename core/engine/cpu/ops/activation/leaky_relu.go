package activation

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.LeakyReLU, leakyReLU[float32], leakyReLU[float64], leakyReLUGrad[float32], leakyReLUGrad[float64])
}

func leakyReLU[T kernel.Float](x, y []T, s op.Scalars) { elementwise.LeakyReLU(x, y, s[0]) }

func leakyReLUGrad[T kernel.Float](x, dy, dx []T, s op.Scalars) {
	elementwise.LeakyReLUGrad(x, dy, dx, s[0])
}
