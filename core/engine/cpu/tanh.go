package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Tanh, plain(kernel.Tanh[float32]), plain(kernel.Tanh[float64]), plainGrad(kernel.TanhGrad[float32]), plainGrad(kernel.TanhGrad[float64]))
}
