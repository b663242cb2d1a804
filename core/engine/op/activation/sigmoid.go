package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Sigmoid is the logistic function.
const Sigmoid graph.Op = "sigmoid"

func init() {
	op.DefinePointwise(op.Definition{
		Name: Sigmoid, Doc: "1 / (1 + exp(−x))",
		Pointwise: op.Pointwise{Saved: op.SavedOutput, FLOPs: [2]int64{4, 3}, Formula: op.Operator("Sigmoid")},
	})
}
