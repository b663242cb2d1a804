package activation

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Softplus is a smooth ReLU; its scalars are beta and threshold.
const Softplus graph.Op = "softplus"

func init() {
	op.DefinePointwise(op.Definition{
		Name: Softplus, Doc: "log(1 + exp(beta·x)) / beta (Dugas et al., 2001)", Apex: op.Full,
		Keys: []op.Key{
			{Name: "beta", Kind: op.Float, Default: 1, Positive: true, Doc: "sharpness; default 1"},
			{Name: "threshold", Kind: op.Float, Default: 20, Doc: "value of beta·x above which the result is x; default 20"},
		},
		Pointwise: op.Pointwise{Saved: op.SavedInput, FLOPs: [2]int64{8, 6}, Formula: func(f op.Formula, x op.Operand, s op.Scalars) op.Operand {
			// It has no linear part beyond the threshold: there the difference is below e^−threshold.
			beta := f.Value(s[0])
			return f.Apply("Div", f.Apply("Softplus", f.Apply("Mul", x, beta)), beta)
		}},
	})
}
