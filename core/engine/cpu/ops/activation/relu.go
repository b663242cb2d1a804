package activation

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	bind.Implement(activation.ReLU, bind.Implementation{F32: bind.Unary(bind.Plain(elementwise.ReLU[float32])), F64: bind.Unary(bind.Plain(elementwise.ReLU[float64])), BF16: bind.BF16Unary(elementwise.ReLUBF16), Blocks: bind.OfOne})
	bind.Implement(activation.ReLUGrad, bind.Implementation{F32: bind.Binary(bind.PlainGrad(elementwise.ReLUGrad[float32])), F64: bind.Binary(bind.PlainGrad(elementwise.ReLUGrad[float64])), BF16: bind.BF16Binary(elementwise.ReLUGradBF16), Blocks: bind.OfTwo})
}
