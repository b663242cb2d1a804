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
		Name: CrossEntropy, Doc: "softmax cross-entropy of logits [..., classes] against class indices [...] or probabilities [..., classes]", Outputs: crossEntropyOutputs,
		Criterion: func(o LossOptions) any { return CrossEntropyAttr{o.Smoothing, o.Weights} },
		Steps:     []Step{{Op: CrossEntropy, Cost: PerElement(6)}, {Op: CrossEntropyGrad, Cost: PerElement(6)}},
	})
}

// CrossEntropyAttr is what PyTorch's CrossEntropyLoss takes.
type CrossEntropyAttr struct {
	Smoothing float64
	Weights   []float64 // of classes; nil: each 1
}

// crossEntropyOutputs takes one row of logits for each target of a sample: [classes] for a
// scalar, [tokens, classes] for [tokens]; or for rows of probabilities as many rows of the same length.
// The loss is the mean over all targets of the batch that count, as PyTorch's over
// flattened tensors: with class indices and weights the sum is divided by the targets' weights.
func crossEntropyOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	logits, target := in[0].Spec.Shape, in[1].Spec
	if target.DType.Float() {
		if len(logits) == 0 || !logits.Equal(target.Shape) {
			return nil, fmt.Errorf("needs logits of the targets' shape %v, but the model gives %v", target.Shape, logits)
		}
		return report(), weighs(logits, attr)
	}
	if n := len(logits) - 1; n < 0 || !logits[:n].Equal(target.Shape) {
		return nil, fmt.Errorf("needs logits [%s], but the model gives %v", rowsOf(target.Shape), logits)
	}
	return report(), weighs(logits, attr)
}

// weighs is the error of weights of other classes than those of the logits.
func weighs(logits tensor.Shape, attr any) error {
	a, _ := attr.(CrossEntropyAttr)
	if n, classes := len(a.Weights), logits[len(logits)-1]; a.Weights != nil && n != classes {
		return fmt.Errorf("there are %d class weights for %d classes", n, classes)
	}
	return nil
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
