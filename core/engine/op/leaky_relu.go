package op

import "github.com/trainctl/trainctl/core/engine/graph"

// LeakyReLU is x above 0, and x times its scalar below.
const LeakyReLU graph.Op = "leaky_relu"

func init() {
	definePointwise(Definition{
		Name: LeakyReLU, Doc: "max(x, 0) + negative_slope·min(x, 0) (Maas, Hannun and Ng, 2013)",
		Keys:      []Key{{Name: "negative_slope", Kind: Float, Default: 0.01, Doc: "slope for x < 0; default 0.01"}},
		Pointwise: Pointwise{Saved: SavedInput, FLOPs: [2]int64{2, 2}},
	})
}
