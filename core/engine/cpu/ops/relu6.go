package ops

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.ReLU6, plain(elementwise.ReLU6[float32]), plain(elementwise.ReLU6[float64]), plainGrad(elementwise.ReLU6Grad[float32]), plainGrad(elementwise.ReLU6Grad[float64]))
}
