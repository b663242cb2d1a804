package activation

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.Softplus, softplus[float32], softplus[float64], softplusGrad[float32], softplusGrad[float64])
}

func softplus[T kernel.Float](x, y []T, s op.Scalars) { elementwise.Softplus(x, y, s[0], s[1]) }

func softplusGrad[T kernel.Float](x, dy, dx []T, s op.Scalars) {
	elementwise.SoftplusGrad(x, dy, dx, s[0], s[1])
}
