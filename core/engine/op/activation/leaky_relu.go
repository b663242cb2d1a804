package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// LeakyReLU is x above 0, and x times its scalar below.
const LeakyReLU graph.Op = "leaky_relu"

func init() {
	op.DefinePointwise(op.Definition{
		Name: LeakyReLU, Doc: "max(x, 0) + negative_slope·min(x, 0) (Maas, Hannun and Ng, 2013)",
		Keys: []op.Key{{Name: "negative_slope", Kind: op.Float, Default: 0.01, Doc: "slope for x < 0; default 0.01"}},
		Pointwise: op.Pointwise{Saved: op.SavedInput, FLOPs: [2]int64{2, 2}, Formula: func(f op.Formula, x op.Operand, s op.Scalars) op.Operand {
			return f.Apply("PRelu", x, f.Value(s[0]))
		}},
	})
}
