package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// SiLU is x·σ(x), also called swish.
const SiLU graph.Op = "silu"

func init() {
	op.DefinePointwise(op.Definition{
		Name: SiLU, Doc: "x·sigmoid(x) (Elfwing, Uchibe and Doya, 2018)",
		Pointwise: op.Pointwise{Saved: op.SavedInput, FLOPs: [2]int64{5, 8}, Slope: true, Formula: func(f op.Formula, x op.Operand, _ op.Scalars) op.Operand {
			return f.Apply("Mul", x, f.Apply("Sigmoid", x))
		}},
	})
}
