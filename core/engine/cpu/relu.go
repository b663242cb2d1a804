package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.ReLU, implementation{f32: unary(plain(kernel.ReLU[float32])), f64: unary(plain(kernel.ReLU[float64])), bf16: bf16Unary(kernel.ReLUBF16)})
	implement(op.ReLUGrad, implementation{f32: binary(plainGrad(kernel.ReLUGrad[float32])), f64: binary(plainGrad(kernel.ReLUGrad[float64])), bf16: bf16Binary(kernel.ReLUGradBF16)})
}
