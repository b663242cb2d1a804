package graph

import "github.com/trainctl/trainctl/core/tensor"

// Losses. Both are means over the batch, as PyTorch's criteria with their
// default reduction.
const (
	CrossEntropyOp     Op = "cross_entropy"
	CrossEntropyGradOp Op = "cross_entropy_grad"
	MSEOp              Op = "mse"
	MSEGradOp          Op = "mse_grad"
)

// Loss reports whether op ends a forward pass.
func (op Op) Loss() bool { return op == CrossEntropyOp || op == MSEOp }

// CrossEntropy ends the graph with the softmax cross-entropy of logits
// [classes] against class indices.
func (g *Graph) CrossEntropy(logits ValueID) error {
	in, target := g.Shape(logits), g.Values[g.target].Spec
	if len(in) != 1 {
		return fail("loss", CrossEntropyOp, "wants logits [classes], the model gives %v", in)
	}
	if target.DType != tensor.I32 || len(target.Shape) != 0 {
		return fail("loss", CrossEntropyOp, "wants one int32 class index per sample, the data set gives %v", target)
	}
	return g.lossNode(CrossEntropyOp, logits)
}

// MSE ends the graph with the mean squared error against targets of as many
// elements as the output has.
func (g *Graph) MSE(x ValueID) error {
	in, target := g.Shape(x), g.Values[g.target].Spec
	if !target.DType.Float() || target.Shape.Elems() != in.Elems() {
		return fail("loss", MSEOp, "the model gives %v, the data set's targets are %v", in, target)
	}
	return g.lossNode(MSEOp, x)
}

func (g *Graph) lossNode(op Op, x ValueID) error {
	if g.stats != None {
		panic("graph: a second loss")
	}
	g.output = x
	g.stats = g.add(Value{Name: "loss", Spec: tensor.Spec{DType: tensor.F64, Shape: tensor.Shape{3}}})
	g.node(op, "loss", nil, []ValueID{x, g.target}, []ValueID{g.stats})
	return nil
}

// lossGrad starts the backward pass: nothing comes in, the loss's own slope goes out.
func lossGrad(b *backward, n *Node) {
	x := n.In[0]
	dx := b.fresh(x)
	b.emit(n, n.Op.GradOp(), []ValueID{x, n.In[1]}, []ValueID{dx})
	b.deliver(n, x, dx)
}
