package graph

import "github.com/trainctl/trainctl/core/tensor"

// Elementwise activations.
const (
	ReLUOp        Op = "relu"
	ReLUGradOp    Op = "relu_grad"
	SigmoidOp     Op = "sigmoid"
	SigmoidGradOp Op = "sigmoid_grad"
	TanhOp        Op = "tanh"
	TanhGradOp    Op = "tanh_grad"
	GELUOp        Op = "gelu"
	GELUGradOp    Op = "gelu_grad"
)

// GELU holds the argument of a GELU: its tanh approximation or the exact form.
type GELU struct{ Tanh bool }

// ReLU is max(x, 0).
func (g *Graph) ReLU(layer string, x ValueID) ValueID { return g.elementwise(ReLUOp, layer, nil, x) }

// Sigmoid is 1/(1+exp(−x)).
func (g *Graph) Sigmoid(layer string, x ValueID) ValueID {
	return g.elementwise(SigmoidOp, layer, nil, x)
}

// Tanh is the hyperbolic tangent.
func (g *Graph) Tanh(layer string, x ValueID) ValueID { return g.elementwise(TanhOp, layer, nil, x) }

// GELU is x·Φ(x) (Hendrycks and Gimpel, 2016).
func (g *Graph) GELU(layer string, x ValueID, a GELU) ValueID {
	return g.elementwise(GELUOp, layer, a, x)
}

func (g *Graph) elementwise(op Op, layer string, attr any, x ValueID) ValueID {
	y := g.activation(layer, tensor.F32, g.Shape(x)...)
	g.node(op, layer, attr, []ValueID{x}, []ValueID{y})
	return y
}

// outputGrad is the rule of activations whose slope follows from their output:
// the input need not be kept.
func outputGrad(b *backward, n *Node) { b.through(n, n.Op.GradOp(), n.Out[0]) }

func geluGrad(b *backward, n *Node) { b.through(n, GELUGradOp, n.In[0]) }
