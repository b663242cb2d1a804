package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// The softmax cross-entropy and its gradient.
const CrossEntropy, CrossEntropyGrad graph.Op = "cross_entropy", "cross_entropy_grad"

func init() {
	defineLoss(Definition{
		Name: CrossEntropy, Doc: "softmax cross-entropy of logits [classes] against class indices", Outputs: crossEntropyOutputs,
		Steps: []Step{{Op: CrossEntropy, Cost: PerElement(6)}, {Op: CrossEntropyGrad, Cost: PerElement(6)}},
	})
}

func crossEntropyOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	logits, target := in[0].Spec.Shape, in[1].Spec
	if len(logits) != 1 {
		return nil, fmt.Errorf("needs logits [classes], but the model gives %v", logits)
	}
	if target.DType != tensor.I32 || len(target.Shape) != 0 {
		return nil, fmt.Errorf("needs one int32 class index per sample, but the data set gives %v", target)
	}
	return report(), nil
}
