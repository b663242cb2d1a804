package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.Add, implementation{f32: binary(plainGrad(elementwise.Add[float32])), f64: binary(plainGrad(elementwise.Add[float64])), bf16: bf16Binary(elementwise.AddBF16), blocks: ofTwo})
}
