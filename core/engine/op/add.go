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
		Name: Add, Doc: "sum of two tensors", Apex: Promote,
		Outputs: func(in []graph.Value, attr any) ([]graph.Value, error) {
			if x, y := in[0].Spec.Shape, in[1].Spec.Shape; !x.Equal(y) {
				return nil, fmt.Errorf("the layers give %v and the shortcut %v; fix: add layers to the shortcut that give the same shape", x, y)
			}
			return sameShape(in, attr)
		},
		Gradient: addGradient,
		Steps:    []Step{{Op: Add, Cost: PerElement(1), InPlace: []int{0, 1}, AnyLayout: true}},
	})
}

// addGradient hands the same gradient to both terms.
func addGradient(b *graph.Backward, n *graph.Node) {
	for _, x := range n.In {
		if b.Needs(x) {
			b.Deliver(n, x, b.In(n))
		}
	}
}
