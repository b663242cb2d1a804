package op

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Losses are means over the batch, as PyTorch's criteria with their default
// reduction. They read the model's output and the targets, and their output is
// what they report: three float64 that are the loss sum, the number of rows that
// counted, and of those the number that were right.

// LossOptions are the settings of losses, by their names in [model]; each loss takes its own.
type LossOptions struct {
	Smoothing float64   // label_smoothing: cross_entropy
	Weights   []float64 // class_weights: cross_entropy; nil: each 1
	Delta     float64   // huber_delta: huber; 0: 1
	Args      Args      // of a loss with Keys, those that are given
}

func (o LossOptions) delta() float64 {
	if o.Delta == 0 {
		return 1
	}
	return o.Delta
}

// ApplyLoss ends a graph with the loss of output against the batch's targets.
func ApplyLoss(g *graph.Graph, loss graph.Op, o LossOptions, output graph.ValueID) error {
	var attr any
	if d := named(loss); d.Criterion != nil {
		attr = d.Criterion(o)
	}
	_, err := Apply(g, loss, "loss", attr, output, g.Target())
	return err
}

func report() []graph.Value {
	return []graph.Value{{Spec: tensor.Spec{DType: tensor.F64, Shape: tensor.Shape{3}}}}
}

// defineLoss adds what all losses have in common: they run in full precision, and
// their gradient may overwrite the model's output, also where the loss's own step makes it.
func defineLoss(d Definition) {
	d.Loss, d.Autocast, d.Apex, d.Gradient = true, Full, Full, lossGradient
	d.Steps[0].Over, d.Steps[1].InPlace = [][2]int{{1, 0}}, []int{0}
	define(d)
}

// lossGradient starts the backward pass: it has no incoming gradient and emits the loss's.
func lossGradient(b *graph.Backward, n *graph.Node) {
	x := n.In[0]
	dx := b.Fresh(x)
	b.Emit(n, GradOp(n.Op), []graph.ValueID{x, n.In[1]}, []graph.ValueID{dx})
	b.Deliver(n, x, dx)
}

// Losses lists the operations that end a forward pass, sorted by name.
func Losses() (names []string) {
	for _, d := range All() {
		if d.Loss {
			names = append(names, string(d.Name))
		}
	}
	return names
}
