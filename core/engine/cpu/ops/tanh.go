package ops

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Tanh, plain(elementwise.Tanh[float32]), plain(elementwise.Tanh[float64]), plainGrad(elementwise.TanhGrad[float32]), plainGrad(elementwise.TanhGrad[float64]))
}
