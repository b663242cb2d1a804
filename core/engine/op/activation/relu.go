package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// ReLU and its gradient.
const ReLU, ReLUGrad graph.Op = "relu", "relu_grad"

func init() {
	op.DefinePointwise(op.Definition{
		Name: ReLU, Doc: "max(x, 0)",
		Pointwise: op.Pointwise{Saved: op.SavedOutput, FLOPs: [2]int64{1, 1}, Formula: op.Operator("Relu")},
	})
}
