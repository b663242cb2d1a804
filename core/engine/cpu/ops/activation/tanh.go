package activation

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.Tanh, bind.Plain(elementwise.Tanh[float32]), bind.Plain(elementwise.Tanh[float64]), bind.PlainGrad(elementwise.TanhGrad[float32]), bind.PlainGrad(elementwise.TanhGrad[float64]))
}
