package activation

import (
	"math"

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
		Pointwise: op.Pointwise{Saved: op.SavedInput, FLOPs: [2]int64{8, 12}, Slope: true, Formula: geluFormula},
	})
}

// geluFormula is x/2·(1 + erf(x/√2)), or with tanh(√(2/π)·(x + 0.044715·x³)).
func geluFormula(f op.Formula, x op.Operand, s op.Scalars) op.Operand {
	times := func(y op.Operand, v float64) op.Operand { return f.Apply("Mul", y, f.Value(v)) }
	var inner op.Operand
	if s[0] == 1 {
		cube := f.Apply("Mul", f.Apply("Mul", x, x), x)
		inner = f.Apply("Tanh", times(f.Apply("Add", x, times(cube, 0.044715)), math.Sqrt(2/math.Pi)))
	} else {
		inner = f.Apply("Erf", times(x, math.Sqrt2/2))
	}
	return f.Apply("Mul", times(x, 0.5), f.Apply("Add", inner, f.Value(1)))
}
