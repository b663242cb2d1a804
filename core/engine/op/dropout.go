package op

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Dropout and its gradient.
const Dropout, DropoutGrad graph.Op = "dropout", "dropout_grad"

// DropoutAttr holds the arguments of a dropout.
type DropoutAttr struct {
	P     float64 // probability of a zero
	Layer uint64  // which random stream, counted from 0 per graph
}

func init() {
	define(Definition{
		Name: Dropout, Doc: "in training, zeroes elements with probability p and scales the others by 1/(1−p) (Srivastava et al., 2014)", Renames: InEvaluation, Random: true,
		Keys:    []Key{dropoutP},
		Build:   buildDropout,
		Outputs: dropoutOutputs, Positions: alone,
		Gradient: func(b *graph.Backward, n *graph.Node) { b.Through(n, DropoutGrad, n.Out[1]) },
		Steps: []Step{
			{Op: Dropout, Cost: PerElement(1), InPlace: []int{0}, Again: Again{Op: DropoutGrad, In: []int{^1, 0}}}, // which applies the mask, too
			{Op: DropoutGrad, Cost: PerElement(1), InPlace: []int{1}},
		},
	})
}

var dropoutP = Key{Name: "p", Kind: Float, Default: 0.5, Range: [2]float64{0, 1}, Doc: "probability; default 0.5"}

func buildDropout(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	return s.apply(Dropout, DropoutAttr{P: a.float(dropoutP), Layer: s.randomLayer()}, x)
}

// randomLayer is the random stream of a layer that is about to be added: the
// number of those before it that draw numbers.
func (s *Site) randomLayer() (before uint64) {
	for _, n := range s.G.Nodes {
		if Of(n.Op).Random {
			before++
		}
	}
	return before
}

// dropoutOutputs gives y, and the mask.
func dropoutOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	shape := in[0].Spec.Shape
	return []graph.Value{output(shape...), outputAs(tensor.U8, shape...)}, nil
}
