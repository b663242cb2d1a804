package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// The losses that are means over elements of the output, and their gradients.
const (
	MSE, MSEGrad     graph.Op = "mse", "mse_grad"
	L1, L1Grad       graph.Op = "l1", "l1_grad"
	Huber, HuberGrad graph.Op = "huber", "huber_grad" // the attribute is delta, a float64
	BCE, BCEGrad     graph.Op = "bce_with_logits", "bce_with_logits_grad"
)

func init() {
	for _, d := range []struct {
		name       graph.Op
		doc        string
		cost, grad int64
		attr       func(LossOptions) any
	}{
		{MSE, "mean squared error", 3, 2, nil},
		{L1, "mean absolute error", 2, 2, nil},
		{Huber, "half the squared error up to huber_delta, linear beyond", 5, 3, func(o LossOptions) any { return o.delta() }},
		{BCE, "binary cross-entropy of each output's logit against a probability", 6, 5, nil},
	} {
		defineLoss(Definition{
			Name: d.name, Doc: d.doc + "; targets have as many elements as the output", Outputs: elementwiseOutputs, Criterion: d.attr, Elements: true,
			Steps: []Step{{Op: d.name, Cost: PerElement(d.cost)}, {Op: GradOp(d.name), Cost: PerElement(d.grad)}},
		})
	}
}

func elementwiseOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x, target := in[0].Spec.Shape, in[1].Spec
	if !target.DType.Float() || target.Shape.Elems() != x.Elems() {
		return nil, fmt.Errorf("the model gives %v, but the data set's targets are %v", x, target)
	}
	return report(), nil
}
