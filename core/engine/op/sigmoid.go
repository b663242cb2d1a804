package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Sigmoid is the logistic function.
const Sigmoid graph.Op = "sigmoid"

func init() {
	definePointwise(Definition{
		Name: Sigmoid, Doc: "1 / (1 + exp(−x))",
		Pointwise: Pointwise{Saved: SavedOutput, FLOPs: [2]int64{4, 3}},
	})
}
