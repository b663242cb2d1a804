package op

import "github.com/trainctl/trainctl/core/engine/graph"

// ReLU and its gradient.
const ReLU, ReLUGrad graph.Op = "relu", "relu_grad"

func init() {
	definePointwise(Definition{
		Name: ReLU, Doc: "max(x, 0)",
		Pointwise: Pointwise{Saved: SavedOutput, FLOPs: [2]int64{1, 1}},
	})
}
