package activation

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	pointwise(activation.ReLU6, bind.Plain(elementwise.ReLU6[float32]), bind.Plain(elementwise.ReLU6[float64]), bind.PlainGrad(elementwise.ReLU6Grad[float32]), bind.PlainGrad(elementwise.ReLU6Grad[float64]))
	bind.InBF16(activation.ReLU6, bind.BF16Unary(elementwise.ReLU6BF16))
	bind.InBF16(op.GradOp(activation.ReLU6), bind.BF16Binary(elementwise.ReLU6GradBF16))
}
