package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// ClassToken puts a learned vector before the positions; its gradients come from one pass.
const ClassToken, ClassTokenGrad graph.Op = "class_token", "class_token_grad"

func init() {
	define(Definition{
		Name: ClassToken, Doc: "puts a learned vector before the positions of [positions, width] (Dosovitskiy et al., 2021)",
		Build: func(s *Site, _ Args, x graph.ValueID) (graph.ValueID, error) {
			return s.apply(ClassToken, nil, x, s.param(true, "weight", graph.Table, 0, 1, s.dim(x, -1)))
		},
		Outputs: classTokenOutputs, Gradient: classTokenGradient,
		Steps: []Step{{Op: ClassToken, Cost: PerElement(0)}, {Op: ClassTokenGrad, Cost: PerElement(0)}},
	})
}

func classTokenOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x := in[0].Spec.Shape
	if len(x) != 2 {
		return nil, fmt.Errorf("needs [positions, width], got %v", x)
	}
	if err := floating(in); err != nil {
		return nil, err
	}
	return []graph.Value{output(x[0]+1, x[1])}, nil
}

// classTokenGradient gives the gradients of the input, if wanted, and of the vector.
func classTokenGradient(b *graph.Backward, n *graph.Node) {
	x, dx := n.In[0], graph.None
	if b.Needs(x) {
		dx = b.Fresh(x)
	}
	b.Emit(n, ClassTokenGrad, []graph.ValueID{b.In(n)}, []graph.ValueID{dx, b.Param(n.In[1])})
	if dx != graph.None {
		b.Deliver(n, x, dx)
	}
}

// lastTwo are the dimensions of a table, which networks may keep behind dimensions of one element.
func lastTwo(s tensor.Shape) tensor.Shape { return s[max(0, len(s)-2):] }
