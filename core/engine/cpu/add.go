package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.Add, implementation{f32: binary(plainGrad(kernel.Add[float32])), f64: binary(plainGrad(kernel.Add[float64])), bf16: bf16Binary(kernel.AddBF16)})
}
