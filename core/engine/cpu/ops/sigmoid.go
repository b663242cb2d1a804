package ops

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Sigmoid, plain(elementwise.Sigmoid[float32]), plain(elementwise.Sigmoid[float64]), plainGrad(elementwise.SigmoidGrad[float32]), plainGrad(elementwise.SigmoidGrad[float64]))
}
