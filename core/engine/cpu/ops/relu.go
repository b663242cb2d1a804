package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	bind.Implement(op.ReLU, bind.Implementation{F32: unary(plain(elementwise.ReLU[float32])), F64: unary(plain(elementwise.ReLU[float64])), BF16: bf16Unary(elementwise.ReLUBF16), Blocks: ofOne})
	bind.Implement(op.ReLUGrad, bind.Implementation{F32: binary(plainGrad(elementwise.ReLUGrad[float32])), F64: binary(plainGrad(elementwise.ReLUGrad[float64])), BF16: bf16Binary(elementwise.ReLUGradBF16), Blocks: ofTwo})
}
