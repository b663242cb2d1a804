package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// PositionEmbedding adds a learned vector to each position; its gradient is the table's.
const PositionEmbedding, PositionEmbeddingGrad graph.Op = "position_embedding", "position_embedding_grad"

func init() {
	define(Definition{
		Name: PositionEmbedding, Doc: "adds row t of a learned table to position t of [positions, width]",
		Keys: []Key{{Name: "num_positions", Min: 1, Doc: "rows of the table, at least the input's positions; default: as many"}},
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			n := a.int("num_positions", s.dim(x, 0))
			return s.apply(PositionEmbedding, nil, x, s.param(true, "weight", graph.Table, 0, n, s.dim(x, -1)))
		},
		Outputs: positionOutputs, Gradient: positionGradient, Positions: alone,
		Steps: []Step{{Op: PositionEmbedding, Cost: PerElement(1), InPlace: []int{0}}, {Op: PositionEmbeddingGrad, Cost: PerElement(1)}},
	})
}

func positionOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, table := in[0].Spec.Shape, lastTwo(in[1].Spec.Shape)
	if len(x) != 2 {
		return nil, fmt.Errorf("needs [positions, width], got %v", x)
	}
	if x[0] > table[0] {
		return nil, fmt.Errorf("the input has %d positions, but num_positions is %d", x[0], table[0])
	}
	if err := floating(in); err != nil {
		return nil, err
	}
	return sameShape(in, attr)
}

// positionGradient hands the incoming gradient on as it is.
func positionGradient(b *graph.Backward, n *graph.Node) {
	if dw := b.Param(n.In[1]); dw != graph.None {
		b.Emit(n, PositionEmbeddingGrad, []graph.ValueID{b.In(n)}, []graph.ValueID{dw})
	}
	if b.Needs(n.In[0]) {
		b.Deliver(n, n.In[0], b.In(n))
	}
}
