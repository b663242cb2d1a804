package op

import "github.com/trainctl/trainctl/core/engine/graph"

// Softmax and its gradient, which reads the output.
const Softmax, SoftmaxGrad graph.Op = "softmax", "softmax_grad"

func init() {
	define(Definition{
		Name: Softmax, Doc: "exp(x) / Σexp(x) over the last dimension; cross_entropy includes its own", Autocast: Full, Apex: Full,
		Build:   func(s *Site, _ Args, x graph.ValueID) (graph.ValueID, error) { return s.apply(Softmax, nil, x) },
		Outputs: softmaxOutputs, Positions: aloneIf(manyDims),
		Gradient: func(b *graph.Backward, n *graph.Node) { b.Through(n, SoftmaxGrad, n.Out[0]) },
		Steps:    []Step{{Op: Softmax, Cost: PerElement(6), InPlace: []int{0}}, {Op: SoftmaxGrad, Cost: PerElement(4), InPlace: []int{1}}},
	})
}

func softmaxOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	if err := floating(in); err != nil {
		return nil, err
	}
	return sameShape(in, attr)
}
