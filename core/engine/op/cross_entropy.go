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
		Name: CrossEntropy, Doc: "softmax cross-entropy of logits [..., classes] against class indices [...]", Outputs: crossEntropyOutputs,
		Steps: []Step{{Op: CrossEntropy, Cost: PerElement(6)}, {Op: CrossEntropyGrad, Cost: PerElement(6)}},
	})
}

// crossEntropyOutputs takes one row of logits for each target of a sample: [classes] for a
// scalar, [tokens, classes] for [tokens]. The loss is the mean over all targets of the batch
// that count, as PyTorch's over flattened tensors.
func crossEntropyOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	logits, target := in[0].Spec.Shape, in[1].Spec
	if target.DType != tensor.I32 {
		return nil, fmt.Errorf("needs one int32 class index per sample or position, but the data set gives %v", target)
	}
	if n := len(logits) - 1; n < 0 || !logits[:n].Equal(target.Shape) {
		return nil, fmt.Errorf("needs logits [%s], but the model gives %v", rowsOf(target.Shape), logits)
	}
	return report(), nil
}

// Rows are the rows and columns of a tensor whose last dimension is that of a row.
func Rows(s tensor.Shape) (rows, cols int) {
	last := len(s) - 1
	return s[:last].Elems(), s[last]
}

// rowsOf are the dimensions of logits for targets of a shape.
func rowsOf(target tensor.Shape) string {
	out := ""
	for _, d := range target {
		out += fmt.Sprint(d, ", ")
	}
	return out + "classes"
}
