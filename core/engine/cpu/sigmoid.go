package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Sigmoid, plain(kernel.Sigmoid[float32]), plain(kernel.Sigmoid[float64]), plainGrad(kernel.SigmoidGrad[float32]), plainGrad(kernel.SigmoidGrad[float64]))
}
