package graph

import "github.com/trainctl/trainctl/core/tensor"

// Normalisations. The gradient of each comes from one pass that gives the
// input's and the parameters' at once.
const (
	BatchNormOp     Op = "batchnorm2d"
	BatchNormGradOp Op = "batchnorm2d_grad"
	LayerNormOp     Op = "layernorm"
	LayerNormGradOp Op = "layernorm_grad"
)

// BatchNorm holds the arguments of a batch norm.
type BatchNorm struct {
	Eps      float64
	Momentum float64 // weight of the batch in the running statistics
}

// BatchNormState names the tensors of a batch norm over C channels. Weight and
// Bias [C] may be None; the running mean and variance are [C], Batches a scalar.
type BatchNormState struct {
	Weight, Bias, Mean, Var, Batches ValueID
}

// BatchNorm2D normalises each channel of x [C, H, W] over batch and pixels, and
// keeps running statistics for evaluation (Ioffe and Szegedy, 2015).
// The node's outputs are y, and the batch's mean and 1/σ for the gradient.
func (g *Graph) BatchNorm2D(layer string, x ValueID, s BatchNormState, a BatchNorm) (ValueID, error) {
	in := g.Shape(x)
	if len(in) != 3 {
		return None, fail(layer, BatchNormOp, "wants images [channels, height, width], gets %v", in)
	}
	if c := g.Shape(s.Mean)[0]; c != in[0] {
		return None, fail(layer, BatchNormOp, "normalises %d channels, the input has %d", c, in[0])
	}
	y := g.activation(layer, tensor.F32, in...)
	mean, invstd := g.statistic(layer, in[0]), g.statistic(layer, in[0])
	g.node(BatchNormOp, layer, a, []ValueID{x, s.Weight, s.Bias, s.Mean, s.Var, s.Batches}, []ValueID{y, mean, invstd})
	return y, nil
}

func (g *Graph) statistic(layer string, shape ...int) ValueID {
	return g.add(Value{Name: layer, Spec: tensor.Spec{DType: tensor.F32, Shape: shape}, Wide: true})
}

func batchNormGrad(b *backward, n *Node) {
	normGrad(b, n, BatchNormGradOp)
}

// normGrad reads x, dy, mean, 1/σ and the weight; it writes dx, dweight and dbias.
func normGrad(b *backward, n *Node, op Op) {
	x, w, bias := n.In[0], n.In[1], n.In[2]
	dw, db := b.param(w), b.param(bias)
	dx := None
	if b.needs[x] {
		dx = b.fresh(x)
	}
	b.emit(n, op, []ValueID{x, b.in(n), n.Out[1], n.Out[2], w}, []ValueID{dx, dw, db})
	if dx != None {
		b.deliver(n, x, dx)
	}
}

// LayerNorm holds the arguments of a layer norm.
type LayerNorm struct {
	Eps  float64
	Cols int // elements that are normalised together
}

// LayerNorm normalises the last dimensions of x, as many as shape has; weight
// and bias of that shape may be None (Ba, Kiros and Hinton, 2016).
func (g *Graph) LayerNorm(layer string, x, weight, bias ValueID, shape tensor.Shape, eps float64) (ValueID, error) {
	in := g.Shape(x)
	lead := len(in) - len(shape)
	if lead < 0 || !in[lead:].Equal(shape) {
		return None, fail(layer, LayerNormOp, "normalises the last dimensions %v, the input is %v", shape, in)
	}
	rows := in[:lead]
	y := g.activation(layer, tensor.F32, in...)
	mean, invstd := g.activation(layer, tensor.F32, rows...), g.activation(layer, tensor.F32, rows...)
	g.Values[mean].Wide, g.Values[invstd].Wide = true, true
	g.node(LayerNormOp, layer, LayerNorm{Eps: eps, Cols: shape.Elems()}, []ValueID{x, weight, bias}, []ValueID{y, mean, invstd})
	return y, nil
}

func layerNormGrad(b *backward, n *Node) { normGrad(b, n, LayerNormGradOp) }
