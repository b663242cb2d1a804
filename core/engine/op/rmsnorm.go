package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// RMSNorm and its gradients, which come from one pass.
const RMSNorm, RMSNormGrad graph.Op = "rmsnorm", "rmsnorm_grad"

func init() {
	define(Definition{
		Name: RMSNorm, Doc: "x/√(mean(x²) + eps) over the last dimensions of each sample (Zhang and Sennrich, 2019)", Apex: Full,
		Keys: []Key{
			normalizedShapeKey, rmsEps,
			{Name: "elementwise_affine", Kind: Bool, Doc: "learn a scale per element; default true"},
		},
		Build: buildRMSNorm, Outputs: rmsNormOutputs, Gradient: rmsNormGradient, Positions: aloneIf(normAlone),
		Steps: []Step{
			{Op: RMSNorm, Cost: PerElement(4), Mixed: true, Again: Again{Op: RMSNorm, In: []int{0, 1}}},
			{Op: RMSNormGrad, Cost: PerElement(7), InPlace: []int{1}, Mixed: true},
		},
	})
}

// rmsEps defaults to what torch.nn.RMSNorm takes for float32.
var rmsEps = Key{Name: "eps", Kind: Float, Default: 0x1p-23, Positive: true, Doc: "added to the mean of squares; default 2⁻²³"}

func buildRMSNorm(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	shape := tensor.Shape(get(a, "normalized_shape", []int(nil)))
	in := s.G.Shape(x)
	if lead := len(in) - len(shape); lead < 0 || !in[lead:].Equal(shape) {
		return graph.None, fmt.Errorf("%s (%s): normalized_shape is %v, but the input is %v", s.Path, RMSNorm, shape, in)
	}
	w := s.param(a.bool("elementwise_affine", true), "weight", graph.NormWeight, 0, shape...)
	return s.apply(RMSNorm, LayerNormAttr{Eps: a.float(rmsEps), Cols: shape.Elems(), Dims: len(shape)}, x, w)
}

// rmsNormOutputs gives y, and each row's factor for the gradient.
func rmsNormOutputs(in []graph.Value, attr any) ([]graph.Value, error) {
	x := in[0].Spec.Shape
	return []graph.Value{output(x...), wide(output(x[:len(x)-attr.(LayerNormAttr).Dims]...))}, nil
}

func rmsNormGradient(b *graph.Backward, n *graph.Node) {
	x, w, dx := n.In[0], n.In[1], graph.None
	if b.Needs(x) {
		dx = b.Fresh(x)
	}
	b.Emit(n, RMSNormGrad, []graph.ValueID{x, b.In(n), n.Out[1], w}, []graph.ValueID{dx, b.Param(w)})
	if dx != graph.None {
		b.Deliver(n, x, dx)
	}
}
