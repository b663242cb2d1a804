package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// GELU is x·Φ(x), or its tanh approximation where its scalar is 1.
const GELU graph.Op = "gelu"

func init() {
	op.DefinePointwise(op.Definition{
		Name: GELU, Doc: "x·Φ(x) (Hendrycks and Gimpel, 2016)", Apex: op.Full,
		Keys: []op.Key{
			{Name: "approximate", Kind: op.String, Enum: []string{"none", "tanh"}, Noun: "approximation", Doc: "`\"none\"` (default) or `\"tanh\"`"},
		},
		Pointwise: op.Pointwise{Saved: op.SavedInput, FLOPs: [2]int64{8, 12}, Slope: true},
	})
}
