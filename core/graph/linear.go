package graph

import "github.com/trainctl/trainctl/core/tensor"

// Matrix products and table look-ups.
const (
	LinearOp           Op = "linear"
	LinearGradInputOp  Op = "linear_grad_input"
	LinearGradWeightOp Op = "linear_grad_weight"
	LinearGradBiasOp   Op = "linear_grad_bias"
	EmbeddingOp        Op = "embedding"
	EmbeddingGradOp    Op = "embedding_grad"
)

// Linear multiplies the last dimension of x with w [out, in], transposed, and
// adds an optional bias [out].
func (g *Graph) Linear(layer string, x, w, bias ValueID) (ValueID, error) {
	in, k := g.Shape(x), g.Shape(w)
	if len(in) == 0 || in[len(in)-1] != k[1] {
		return None, fail(layer, LinearOp, "the weight takes %d features, the input is %v: a flatten layer may be missing", k[1], in)
	}
	out := in.Clone()
	out[len(out)-1] = k[0]
	y := g.activation(layer, tensor.F32, out...)
	g.node(LinearOp, layer, nil, []ValueID{x, w, bias}, []ValueID{y})
	return y, nil
}

// linearGrad gives the bias's gradient first: autograd reaches it, the first
// argument of addmm, before the weight behind its transpose.
func linearGrad(b *backward, n *Node) {
	x, w, bias, dy := n.In[0], n.In[1], n.In[2], b.in(n)
	if db := b.param(bias); db != None {
		b.emit(n, LinearGradBiasOp, []ValueID{dy}, []ValueID{db})
	}
	if dw := b.param(w); dw != None {
		b.emit(n, LinearGradWeightOp, []ValueID{x, dy}, []ValueID{dw})
	}
	if b.needs[x] {
		dx := b.fresh(x)
		b.emit(n, LinearGradInputOp, []ValueID{dy, w}, []ValueID{dx})
		b.deliver(n, x, dx)
	}
}

// Embedding looks up the rows of table [entries, dim] that x names.
func (g *Graph) Embedding(layer string, x, table ValueID) (ValueID, error) {
	if d := g.Values[x].Spec.DType; d != tensor.I32 {
		return None, fail(layer, EmbeddingOp, "wants int32 indices, gets %v", g.Values[x].Spec)
	}
	y := g.activation(layer, tensor.F32, append(g.Shape(x).Clone(), g.Shape(table)[1])...)
	g.node(EmbeddingOp, layer, nil, []ValueID{x, table}, []ValueID{y})
	return y, nil
}

func embeddingGrad(b *backward, n *Node) {
	if dt := b.param(n.In[1]); dt != None {
		b.emit(n, EmbeddingGradOp, []ValueID{n.In[0], b.in(n)}, []ValueID{dt})
	}
}
