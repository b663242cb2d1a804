package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	bind.Implement(op.Add, bind.Implementation{F32: bind.Binary(bind.PlainGrad(elementwise.Add[float32])), F64: bind.Binary(bind.PlainGrad(elementwise.Add[float64])), BF16: bind.BF16Binary(elementwise.AddBF16), Half: bind.HalfBinary(reduce.AddHalf), Blocks: bind.OfTwo})
}
