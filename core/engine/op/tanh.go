package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Tanh is the hyperbolic tangent.
const Tanh graph.Op = "tanh"

func init() {
	definePointwise(Definition{
		Name: Tanh, Doc: "hyperbolic tangent",
		Pointwise: Pointwise{Saved: SavedOutput, FLOPs: [2]int64{4, 3}},
	})
}
