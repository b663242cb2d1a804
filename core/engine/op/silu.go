package op

import "github.com/trainctl/trainctl/core/engine/graph"

// SiLU is x·σ(x), also called swish.
const SiLU graph.Op = "silu"

func init() {
	definePointwise(Definition{
		Name: SiLU, Doc: "x·sigmoid(x) (Elfwing, Uchibe and Doya, 2018)",
		Pointwise: Pointwise{Saved: SavedInput, FLOPs: [2]int64{5, 8}, Slope: true},
	})
}
