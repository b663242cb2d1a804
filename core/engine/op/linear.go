package op

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// A matrix product and its three gradients.
const (
	Linear           graph.Op = "linear"
	LinearGradInput  graph.Op = "linear_grad_input"
	LinearGradWeight graph.Op = "linear_grad_weight"
	LinearGradBias   graph.Op = "linear_grad_bias"
)

// A linear layer and the ReLU behind it, fused.
const (
	// LinearReLU reads what linear reads and writes the ReLU's output.
	LinearReLU graph.Op = "linear+relu"

	// LinearGradInputReLU reads dy, the weight and the output of the ReLU before
	// the layer. It writes the gradient of that ReLU's input.
	LinearGradInputReLU graph.Op = "linear_grad_input+relu_grad"
)

func init() {
	define(Definition{
		Name: Linear, Doc: "fully connected layer: x·wᵀ + bias over the last dimension", Autocast: Lower, Apex: Lower,
		Keys: []Key{
			{Name: "in_features", Min: 1, Doc: "input size; optional, checked against the inferred shape"},
			{Name: "out_features", Min: 1, Required: true, Doc: "output size; required"},
			biasKey,
			tieKey,
		},
		Build: buildLinear, Outputs: linearOutputs, Gradient: linearGradient, Positions: aloneIf(manyDims),
		Steps: []Step{
			{Op: Linear, Cost: linearCost, Again: Again{Op: Linear, In: []int{0, 1, 2}, Short: widens}},
			{Op: LinearGradInput, Cost: linearGradInputCost},
			{Op: LinearGradWeight, Cost: func(in, out []tensor.Spec) int64 { return 2 * elems(in, 1) * int64(out[0].Shape[1]) }},
			{Op: LinearGradBias, Cost: PerElement(1)},
		},
	})
	define(Definition{
		Name: LinearReLU, Doc: "linear and the following relu",
		Steps: []Step{{Op: LinearReLU, Cost: linearCost}, {Op: LinearGradInputReLU, Cost: linearGradInputCost}},
	})
}

func buildLinear(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
	in, out := s.dim(x, -1), a.int("out_features", 0)
	if err := s.expect(a, "in_features", in); err != nil {
		return graph.None, err
	}
	w := s.param(true, "weight", graph.Weight, in, out, in)
	return s.apply(Linear, nil, x, w, s.param(a.bool("bias", true), "bias", graph.Bias, in, out))
}

// linearOutputs multiplies the last dimension of x with w [out, in], transposed,
// and adds an optional bias [out].
func linearOutputs(in []graph.Value, _ any) ([]graph.Value, error) {
	x, w := in[0].Spec.Shape, in[1].Spec.Shape
	if len(x) == 0 || x[len(x)-1] != w[1] {
		return nil, fmt.Errorf("in_features is %d, but the input is %v; a flatten layer may be missing", w[1], x)
	}
	out := x.Clone()
	out[len(out)-1] = w[0]
	return []graph.Value{output(out...)}, nil
}

// linearGradient gives the bias's gradient first: autograd reaches it, the first
// argument of addmm, before the weight behind its transpose.
func linearGradient(b *graph.Backward, n *graph.Node) {
	x, w, bias, dy := n.In[0], n.In[1], n.In[2], b.In(n)
	if db := b.Param(bias); db != graph.None {
		b.Emit(n, LinearGradBias, []graph.ValueID{dy}, []graph.ValueID{db})
	}
	if dw := b.Param(w); dw != graph.None {
		b.Emit(n, LinearGradWeight, []graph.ValueID{x, dy}, []graph.ValueID{dw})
	}
	b.Input(n, LinearGradInput, dy, w)
}

func linearCost(in, out []tensor.Spec) int64 {
	return elems(out, 0) * (2*int64(in[1].Shape[1]) + min(elems(in, 2), 1))
}

// widens reports whether a linear layer makes many elements of each of its few inputs. Recomputing its output then takes little
// more time than writing it, and its inputs, which are kept or recomputed instead, are small.
func widens(in []tensor.Spec) bool {
	const few, times = 16, 3
	out, inner := in[1].Shape[0], in[1].Shape[1]
	return inner <= few && out >= times*inner
}

func linearGradInputCost(in, _ []tensor.Spec) int64 { return 2 * elems(in, 0) * int64(in[1].Shape[1]) }
