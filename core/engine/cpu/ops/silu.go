package ops

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.SiLU, plain(elementwise.SiLU[float32]), plain(elementwise.SiLU[float64]), plainGrad(elementwise.SiLUGrad[float32]), plainGrad(elementwise.SiLUGrad[float64]))
	keepSlope(op.SiLU, func(x, y []float32, _ op.Scalars) { elementwise.SiLUAndSlope(x, y) })
}
