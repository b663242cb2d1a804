package activation

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.SiLU, bind.Plain(elementwise.SiLU[float32]), bind.Plain(elementwise.SiLU[float64]), bind.PlainGrad(elementwise.SiLUGrad[float32]), bind.PlainGrad(elementwise.SiLUGrad[float64]))
	keepSlope(activation.SiLU, func(x, y []float32, _ op.Scalars) { elementwise.SiLUAndSlope(x, y) })
}
