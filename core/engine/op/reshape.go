package op

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Reshape gives its input other dimensions, and its gradient the input's back. No data moves.
const Reshape, ReshapeGrad graph.Op = "reshape", "reshape_grad"

// ReshapeAttr is the new shape of a sample, of which one dimension may be −1.
type ReshapeAttr struct{ Shape tensor.Shape }

func init() {
	define(Definition{
		Name: Reshape, Doc: "gives its input another shape of as many elements; nothing is copied", Renames: Always,
		Keys:  []Key{{Name: "shape", Kind: Ints, Min: -1, Required: true, Doc: "new shape without the batch; one dimension may be −1, which follows from the others; required"}},
		Check: checkReshape,
		Build: func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
			return s.apply(Reshape, ReshapeAttr{get(a, "shape", []int(nil))}, x)
		},
		Outputs: reshapeOutputs, Gradient: inputGradient,
	})
	owners[ReshapeGrad] = owners[Reshape]
}

func checkReshape(a Args, l *usererr.List) {
	open := 0
	for i, n := range get(a, "shape", []int(nil)) {
		if n == 0 {
			l.Addf(fmt.Sprintf("shape[%d]", i), "", "0 is not a size")
		}
		if n == -1 {
			open++
		}
	}
	if open > 1 {
		l.Addf("shape", "", "only one dimension may be −1, %d are", open)
	}
}

func reshapeOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, shape := in[0].Spec, attr.(ReshapeAttr).Shape.Clone()
	if open := slices.Index(shape, -1); open >= 0 {
		shape[open] = 1
		shape[open] = x.Shape.Elems() / shape.Elems()
	}
	if shape.Elems() != x.Shape.Elems() {
		return nil, fmt.Errorf("%v has %d elements, which do not fit shape %v", x.Shape, x.Shape.Elems(), attr.(ReshapeAttr).Shape)
	}
	return []graph.Value{outputAs(x.DType, shape...)}, nil
}

// Flatten gives its input one dimension besides the batch, and its gradient the
// input's shape back. No data moves.
const Flatten, FlattenGrad graph.Op = "flatten", "flatten_grad"

func init() {
	define(Definition{
		Name: Flatten, Doc: "flattens all dimensions but the batch", Renames: Always,
		Build: func(s *Site, _ Args, x graph.ValueID) (graph.ValueID, error) { return s.apply(Flatten, nil, x) },
		Outputs: func(in []graph.Value, _ any) ([]graph.Value, error) {
			x := in[0].Spec
			return []graph.Value{outputAs(x.DType, x.Shape.Elems())}, nil
		},
		Gradient: inputGradient,
	})
	owners[FlattenGrad] = owners[Flatten]
}
