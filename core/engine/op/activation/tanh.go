package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Tanh is the hyperbolic tangent.
const Tanh graph.Op = "tanh"

func init() {
	op.DefinePointwise(op.Definition{
		Name: Tanh, Doc: "hyperbolic tangent",
		Pointwise: op.Pointwise{Saved: op.SavedOutput, FLOPs: [2]int64{4, 3}, Formula: op.Operator("Tanh")},
	})
}
