package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Softplus is a smooth ReLU; its scalars are beta and threshold.
const Softplus graph.Op = "softplus"

func init() {
	definePointwise(Definition{
		Name: Softplus, Doc: "log(1 + exp(beta·x)) / beta (Dugas et al., 2001)", Apex: Full,
		Keys: []Key{
			{Name: "beta", Kind: Float, Default: 1, Positive: true, Doc: "sharpness; default 1"},
			{Name: "threshold", Kind: Float, Default: 20, Doc: "value of beta·x above which the result is x; default 20"},
		},
		Pointwise: Pointwise{Saved: SavedInput, FLOPs: [2]int64{8, 6}},
	})
}
