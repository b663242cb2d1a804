package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.ReLU, implementation{f32: unary(plain(elementwise.ReLU[float32])), f64: unary(plain(elementwise.ReLU[float64])), bf16: bf16Unary(elementwise.ReLUBF16), blocks: ofOne})
	implement(op.ReLUGrad, implementation{f32: binary(plainGrad(elementwise.ReLUGrad[float32])), f64: binary(plainGrad(elementwise.ReLUGrad[float64])), bf16: bf16Binary(elementwise.ReLUGradBF16), blocks: ofTwo})
}
