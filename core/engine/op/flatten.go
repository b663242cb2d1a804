package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Flatten gives its input one dimension besides the batch, and its gradient the
// input's shape back. No data moves.
const Flatten, FlattenGrad graph.Op = "flatten", "flatten_grad"

func init() {
	define(Definition{
		Name: Flatten, Doc: "flattens all dimensions but the batch", Renames: Always,
		Build: func(s *Site, _ Args, x graph.ValueID) (graph.ValueID, error) { return s.apply(Flatten, nil, x) },
		Outputs: func(in []graph.Value, _ any) ([]graph.Value, error) {
			x := in[0].Spec
			return []graph.Value{outputAs(x.DType, x.Shape.Elems())}, nil
		},
		Gradient: inputGradient,
	})
	owners[FlattenGrad] = owners[Flatten]
}
