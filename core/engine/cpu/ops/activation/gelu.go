package activation

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.GELU, gelu[float32], gelu[float64], geluGrad[float32], geluGrad[float64])
	keepSlope(activation.GELU, func(x, y []float32, s op.Scalars) { elementwise.GELUAndSlope(x, y, s[0] == 1) })
}

func gelu[T kernel.Float](x, y []T, s op.Scalars) { elementwise.GELU(x, y, s[0] == 1) }

func geluGrad[T kernel.Float](x, dy, dx []T, s op.Scalars) {
	elementwise.GELUGrad(x, dy, dx, s[0] == 1)
}
