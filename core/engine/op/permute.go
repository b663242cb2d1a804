package op

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Permute reorders dimensions; its gradient puts them back.
const Permute, PermuteGrad graph.Op = "permute", "permute_grad"

// PermuteAttr says which dimension of the input each of the output's is, both with the batch, 0.
type PermuteAttr struct{ Dims []int }

// Inverse is the permutation of the gradient.
func (a PermuteAttr) Inverse() PermuteAttr {
	back := make([]int, len(a.Dims))
	for i, d := range a.Dims {
		back[d] = i
	}
	return PermuteAttr{back}
}

func init() {
	define(Definition{
		Name: Permute, Doc: "reorders dimensions; copies nothing if the elements stay in the same order in memory",
		Keys:  []Key{{Name: "dims", Kind: Ints, Required: true, Doc: "the input's dimensions in their new order, as torch.permute takes them: the batch is 0 and stays first, such as `[0, 2, 1]`; required"}},
		Check: checkPermute, Build: buildPermute, Outputs: permuteOutputs, Gradient: inputGradient,
		Steps: []Step{{Op: Permute, Cost: PerElement(0)}, {Op: PermuteGrad, Cost: PerElement(0)}},
	})
}

func checkPermute(a Args, l *usererr.List) {
	dims := get(a, "dims", []int(nil))
	sorted := slices.Sorted(slices.Values(dims))
	for i, d := range sorted {
		if d != i {
			l.Addf("dims", "", "%v does not have each of 0 to %d once", dims, len(dims)-1)
			return
		}
	}
	if len(dims) > 0 && dims[0] != 0 {
		l.Addf("dims", "put 0 first", "%v moves dimension 0, the batch", dims)
	}
}

// buildPermute reshapes where only dimensions of one element change places.
func buildPermute(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	dims, in := get(a, "dims", []int(nil)), s.G.Shape(x)
	if len(dims) != len(in)+1 {
		return graph.None, fmt.Errorf("%s (%s): %d dims given, but a batch of %v has %d", s.Path, Permute, len(dims), in, len(in)+1)
	}
	out, last, moves := tensor.Shape{}, 0, false
	for _, d := range dims[1:] {
		out = append(out, in[d-1])
		if in[d-1] > 1 {
			moves, last = moves || d < last, d
		}
	}
	if !moves {
		return s.apply(Reshape, ReshapeAttr{out}, x)
	}
	return s.apply(Permute, PermuteAttr{dims}, x)
}

func permuteOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, out := in[0].Spec, tensor.Shape{}
	for _, d := range attr.(PermuteAttr).Dims[1:] {
		out = append(out, x.Shape[d-1])
	}
	return []graph.Value{outputAs(x.DType, out...)}, nil
}
