package activation

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.Sigmoid, bind.Plain(elementwise.Sigmoid[float32]), bind.Plain(elementwise.Sigmoid[float64]), bind.PlainGrad(elementwise.SigmoidGrad[float32]), bind.PlainGrad(elementwise.SigmoidGrad[float64]))
}
