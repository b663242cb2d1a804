package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// The mean squared error and its gradient.
const MSE, MSEGrad graph.Op = "mse", "mse_grad"

func init() {
	defineLoss(Definition{
		Name: MSE, Doc: "mean squared error; targets have as many elements as the output", Outputs: mseOutputs,
		Steps: []Step{{Op: MSE, Cost: PerElement(3)}, {Op: MSEGrad, Cost: PerElement(2)}},
	})
}

func mseOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x, target := in[0].Spec.Shape, in[1].Spec
	if !target.DType.Float() || target.Shape.Elems() != x.Elems() {
		return nil, fmt.Errorf("the model gives %v, but the data set's targets are %v", x, target)
	}
	return report(), nil
}
