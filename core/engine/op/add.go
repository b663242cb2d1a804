package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// Add is the sum of two tensors of one shape: the end of a residual block, and
// where two gradients of one value meet.
const Add = graph.Sum

func init() {
	define(Definition{
		Name: Add, Doc: "sum of two or more layers of one shape", Apex: Promote,
		Join: buildAdd, Inputs: [2]int{2, Most},
		Outputs: func(in []graph.Value, attr any) ([]graph.Value, error) {
			if x, y := in[0].Spec.Shape, in[1].Spec.Shape; !x.Equal(y) {
				return nil, fmt.Errorf("the layers give %v and the shortcut %v; fix: add layers to the shortcut that give the same shape", x, y)
			}
			if err := floating(in); err != nil {
				return nil, err
			}
			return sameShape(in, attr)
		},
		Gradient: addGradient, Positions: alone,
		Steps: []Step{{Op: Add, Cost: PerElement(1), InPlace: []int{0, 1}, AnyLayout: true, Again: Again{Op: Add, In: []int{0, 1}}}},
	})
}

// buildAdd adds from the left, as a + b + c does.
func buildAdd(s *Site, _ Args, in []graph.ValueID) (graph.ValueID, error) {
	sum := in[0]
	for _, x := range in[1:] {
		if have, want := s.G.Shape(x), s.G.Shape(sum); !have.Equal(want) {
			return graph.None, fmt.Errorf("%s (%s): cannot add %v to %v: the shapes differ", s.Path, Add, have, want)
		}
		var err error
		if sum, err = s.apply(Add, nil, sum, x); err != nil {
			return graph.None, err
		}
	}
	return sum, nil
}

// addGradient hands the same gradient to both terms.
func addGradient(b *graph.Backward, n *graph.Node) {
	for _, x := range n.In {
		if b.Needs(x) {
			b.Deliver(n, x, b.In(n))
		}
	}
}
