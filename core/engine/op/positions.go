package op

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Positions says how an operation computes the positions of a sample [positions, …] a few at
// a time, as a language model that generates text does: kept are the shapes of the tensors of
// earlier positions that it needs, up to so many. The error says why it cannot. Definitions
// without this rule mix positions in a way that needs all of them.
type Positions func(in []graph.Value, attr any, most int) (kept []tensor.Shape, err error)

// AtPositions is what the operation of a node keeps of earlier positions.
func AtPositions(n *graph.Node, in []graph.Value, most int) ([]tensor.Shape, error) {
	d := Of(n.Op)
	if d.Positions == nil {
		return nil, fmt.Errorf("%s (%s) needs all positions at once", n.Layer, n.Op)
	}
	kept, err := d.Positions(in, n.Attr, most)
	if err != nil {
		return nil, fmt.Errorf("%s (%s) %w", n.Layer, n.Op, err)
	}
	return kept, nil
}

// alone is the rule of operations whose output at a position depends on their inputs there.
func alone([]graph.Value, any, int) ([]tensor.Shape, error) { return nil, nil }

// aloneIf is the rule of operations that are alone under a condition.
func aloneIf(holds func(in []graph.Value, attr any) bool) Positions {
	return func(in []graph.Value, attr any, _ int) ([]tensor.Shape, error) {
		if !holds(in, attr) {
			return nil, errors.New("works across positions")
		}
		return nil, nil
	}
}

// normAlone: a position has statistics of its own.
func normAlone(in []graph.Value, attr any) bool {
	return attr.(LayerNormAttr).Dims < len(in[0].Spec.Shape)
}

// manyDims: the last dimension is not the positions.
func manyDims(in []graph.Value, _ any) bool { return len(in[0].Spec.Shape) > 1 }

func sameShapes(in []graph.Value, _ any) bool { return in[0].Spec.Shape.Equal(in[1].Spec.Shape) }

// laterAxis: positions are neither joined nor divided.
func laterAxis(_ []graph.Value, attr any) bool { return attr.(PartsAttr).Axis > 0 }

// attentionKept are the keys, already rotated, and the values of earlier positions.
func attentionKept(in []graph.Value, attr any, most int) ([]tensor.Shape, error) {
	a := attr.(AttentionAttr)
	if !a.Causal {
		return nil, errors.New("is not causal: positions attend to later ones")
	}
	if in[0].Spec.Shape[0] != in[len(in)-1].Spec.Shape[0] {
		return nil, fmt.Errorf("has %d queries and %d keys", in[0].Spec.Shape[0], in[len(in)-1].Spec.Shape[0])
	}
	kept := tensor.Shape{most, a.KVHeads * a.Dim}
	return []tensor.Shape{kept, kept}, nil
}
