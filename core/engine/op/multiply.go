package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// The product of two tensors, and the gradient of one of its factors: of dy and
// the other factor, summed where this one was broadcast.
const Multiply, MultiplyGrad graph.Op = "multiply", "multiply_grad"

func init() {
	define(Definition{
		Name: Multiply, Doc: "product of two layers of one shape; the second may have ones in its last dimensions, such as [C, 1, 1] beside [C, H, W], and is then repeated over them", Apex: Promote,
		Join:    func(s *Site, _ Args, in []graph.ValueID) (graph.ValueID, error) { return s.apply(Multiply, nil, in...) },
		Inputs:  [2]int{2, 2},
		Outputs: multiplyOutputs, Gradient: multiplyGradient, Positions: aloneIf(sameShapes),
		Steps: []Step{{Op: Multiply, Cost: PerElement(1), InPlace: []int{0}}, {Op: MultiplyGrad, Cost: PerElement(1)}},
	})
}

func multiplyOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, y := in[0].Spec.Shape, in[1].Spec.Shape
	if !x.Equal(y) && !broadcasts(y, x) {
		return nil, fmt.Errorf("cannot multiply %v by %v: the shapes differ, and the second is not the first with ones in its last dimensions", x, y)
	}
	if err := floating(in); err != nil {
		return nil, err
	}
	return sameShape(in, attr)
}

// broadcasts reports whether y is x but for ones in its last dimensions.
func broadcasts(y, x tensor.Shape) bool {
	if len(x) != len(y) {
		return false
	}
	ones := false
	for i, n := range y {
		ones = ones || n == 1 && x[i] != 1
		if ones && n != 1 || !ones && n != x[i] {
			return false
		}
	}
	return true
}

func multiplyGradient(b *graph.Backward, n *graph.Node) {
	for i, x := range n.In {
		if b.Needs(x) {
			dx := b.Fresh(x)
			b.Emit(n, MultiplyGrad, []graph.ValueID{b.In(n), n.In[1-i]}, []graph.ValueID{dx})
			b.Deliver(n, x, dx)
		}
	}
}
