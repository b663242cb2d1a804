package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// A table look-up and the gradient of its table.
const Embedding, EmbeddingGrad graph.Op = "embedding", "embedding_grad"

func init() {
	define(Definition{
		Name: Embedding, Doc: "lookup of the rows of a table by int32 indices",
		Keys: []Key{
			{Name: "num_embeddings", Min: 1, Required: true, Doc: "number of rows of the table; required"},
			{Name: "embedding_dim", Min: 1, Required: true, Doc: "length of a row; required"},
			tieKey,
		},
		Build: buildEmbedding, Outputs: embeddingOutputs, Gradient: embeddingGradient, Positions: alone,
		Steps: []Step{{Op: Embedding, Cost: PerElement(0)}, {Op: EmbeddingGrad, Cost: PerElement(0)}},
	})
}

// tieKey makes a layer read another one's weight.
var tieKey = Key{Name: "tie", Kind: String, Doc: "state-dict path of an earlier layer's parameter that this layer uses instead of a weight of its own, such as `\"wte.weight\"`"}

func buildEmbedding(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	return s.apply(Embedding, nil, x, s.param(true, "weight", graph.Table, 0, a.int("num_embeddings", 0), a.int("embedding_dim", 0)))
}

func embeddingOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x, table := in[0].Spec, in[1].Spec.Shape
	if x.DType != tensor.I32 {
		return nil, fmt.Errorf("needs int32 indices, got %v", x)
	}
	return []graph.Value{output(append(x.Shape.Clone(), table[1])...)}, nil
}

func embeddingGradient(b *graph.Backward, n *graph.Node) {
	if dt := b.Param(n.In[1]); dt != graph.None {
		b.Emit(n, EmbeddingGrad, []graph.ValueID{n.In[0], b.In(n)}, []graph.ValueID{dt})
	}
}
