package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Layer norm and its gradients, which come from one pass.
const LayerNorm, LayerNormGrad graph.Op = "layernorm", "layernorm_grad"

// LayerNormAttr holds the arguments of a layer norm.
type LayerNormAttr struct {
	Eps  float64
	Cols int // elements that are normalised together
	Dims int // dimensions that they are
}

var normalizedShapeKey = Key{Name: "normalized_shape", Kind: Ints, Min: 1, One: true, Required: true, Doc: "trailing dimensions to normalise over, one number or a list; required"}

func init() {
	define(Definition{
		Name: LayerNorm, Doc: "layer normalisation over the last dimensions of each sample (Ba, Kiros and Hinton, 2016)", Apex: Full,
		Keys: []Key{
			normalizedShapeKey, epsKey,
			{Name: "elementwise_affine", Kind: Bool, Doc: "learn a scale and a bias per element; default true"},
			biasKey,
		},
		Build: buildLayerNorm, Outputs: layerNormOutputs, Gradient: normGradient, Positions: aloneIf(normAlone),
		Steps: []Step{
			{Op: LayerNorm, Cost: PerElement(7), Mixed: true, Again: Again{Op: LayerNorm, In: []int{0, 1, 2}}},
			{Op: LayerNormGrad, Cost: PerElement(9), InPlace: []int{1}, Mixed: true},
		},
	})
}

func buildLayerNorm(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	shape := tensor.Shape(get(a, "normalized_shape", []int(nil)))
	in := s.G.Shape(x)
	if lead := len(in) - len(shape); lead < 0 || !in[lead:].Equal(shape) {
		return graph.None, fmt.Errorf("%s (%s): normalized_shape is %v, but the input is %v", s.Path, LayerNorm, shape, in)
	}
	affine := a.bool("elementwise_affine", true)
	w := s.param(affine, "weight", graph.NormWeight, 0, shape...)
	bias := s.param(affine && a.bool("bias", true), "bias", graph.NormBias, 0, shape...)
	return s.apply(LayerNorm, LayerNormAttr{Eps: a.float(epsKey), Cols: shape.Elems(), Dims: len(shape)}, x, w, bias)
}

// layerNormOutputs gives y, and each row's mean and 1/σ for the gradient. Weight
// and bias have the shape of what is normalised, or are absent.
func layerNormOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x := in[0].Spec.Shape
	rows := wide(output(x[:len(x)-attr.(LayerNormAttr).Dims]...))
	return []graph.Value{output(x...), rows, rows}, nil
}
