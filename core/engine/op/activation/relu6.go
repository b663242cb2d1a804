package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// ReLU6 is a ReLU that ends at 6.
const ReLU6 graph.Op = "relu6"

func init() {
	op.DefinePointwise(op.Definition{
		Name: ReLU6, Doc: "min(max(x, 0), 6) (Krizhevsky, 2010)",
		Pointwise: op.Pointwise{Saved: op.SavedOutput, FLOPs: [2]int64{2, 2}, Formula: func(f op.Formula, x op.Operand, _ op.Scalars) op.Operand {
			return f.Apply("Clip", x, f.Value(0), f.Value(6))
		}},
	})
}
