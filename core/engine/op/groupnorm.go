package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// Group norm and its gradients, which come from one pass.
const GroupNorm, GroupNormGrad graph.Op = "groupnorm", "groupnorm_grad"

// GroupNormAttr holds the arguments of a group norm.
type GroupNormAttr struct {
	Eps    float64
	Groups int // of neighbouring channels
}

func init() {
	define(Definition{
		Name: GroupNorm, Doc: "normalisation of each sample over groups of channels and their pixels (Wu and He, 2018)", Apex: Full,
		Keys: []Key{
			{Name: "num_groups", Min: 1, Required: true, Doc: "groups that the channels are divided into; required"},
			{Name: "num_channels", Min: 1, Doc: "input channels; optional, checked against the inferred shape"},
			epsKey, normAffineKey,
		},
		Build: buildGroupNorm, Outputs: groupNormOutputs, Gradient: normGradient,
		Steps: []Step{
			{Op: GroupNorm, Cost: PerElement(7), Mixed: true, Again: Again{Op: GroupNorm, In: []int{0, 1, 2}}},
			{Op: GroupNormGrad, Cost: PerElement(9), InPlace: []int{1}, Mixed: true},
		},
	})
}

func buildGroupNorm(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	channels, groups := s.dim(x, 0), a.int("num_groups", 1)
	if err := s.expect(a, "num_channels", channels); err != nil {
		return graph.None, err
	}
	affine := a.bool(normAffineKey.Name, true)
	w := s.param(affine, "weight", graph.NormWeight, 0, channels)
	bias := s.param(affine, "bias", graph.NormBias, 0, channels)
	return s.apply(GroupNorm, GroupNormAttr{Eps: a.float(epsKey), Groups: groups}, x, w, bias)
}

// groupNormOutputs reads x [C, ...] and weight and bias [C] or none. It gives y, and each
// group's mean and 1/σ for the gradient.
func groupNormOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x, groups := in[0].Spec.Shape, attr.(GroupNormAttr).Groups
	if len(x) == 0 {
		return nil, fmt.Errorf("needs [channels, ...], got %v", x)
	}
	if x[0]%groups != 0 {
		return nil, fmt.Errorf("num_groups is %d, but the input has %d channels, which is not a multiple of it", groups, x[0])
	}
	statistic := wide(output(groups))
	return []graph.Value{output(x...), statistic, statistic}, nil
}
