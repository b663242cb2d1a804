package op

import "github.com/trainctl/trainctl/core/engine/graph"

// GELU is x·Φ(x), or its tanh approximation where its scalar is 1.
const GELU graph.Op = "gelu"

func init() {
	definePointwise(Definition{
		Name: GELU, Doc: "x·Φ(x) (Hendrycks and Gimpel, 2016)", Apex: Full,
		Keys: []Key{
			{Name: "approximate", Kind: String, Enum: []string{"none", "tanh"}, Noun: "approximation", Doc: "`\"none\"` (default) or `\"tanh\"`"},
		},
		Pointwise: Pointwise{Saved: SavedInput, FLOPs: [2]int64{8, 12}, Slope: true},
	})
}
