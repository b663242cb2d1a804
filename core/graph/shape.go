package graph

import (
	"strconv"

	"github.com/trainctl/trainctl/core/tensor"
)

// Operations that move or mask values, and the sum of two.
const (
	FlattenOp     Op = "flatten"
	FlattenGradOp Op = "flatten_grad"
	DropoutOp     Op = "dropout"
	DropoutGradOp Op = "dropout_grad"
	AddOp         Op = "add"
)

// Flatten gives x one dimension beside the batch's. No data moves.
func (g *Graph) Flatten(layer string, x ValueID) ValueID {
	y := g.activation(layer, g.Values[x].Spec.DType, g.Shape(x).Elems())
	g.node(FlattenOp, layer, nil, []ValueID{x}, []ValueID{y})
	return y
}

func flattenGrad(b *backward, n *Node) { b.through(n, FlattenGradOp) }

// Dropout holds the arguments of a dropout.
type Dropout struct {
	P     float64 // probability of a zero
	Layer uint64  // which random stream, counted from 0 per graph
}

// Dropout zeroes elements with probability p while training, and scales the
// others by 1/(1−p) (Srivastava et al., 2014). The node's second output is the mask.
func (g *Graph) Dropout(layer string, x ValueID, p float64) ValueID {
	var count uint64
	for _, n := range g.Nodes {
		if n.Op == DropoutOp {
			count++
		}
	}
	y, mask := g.activation(layer, tensor.F32, g.Shape(x)...), g.activation(layer, tensor.U8, g.Shape(x)...)
	g.node(DropoutOp, layer, Dropout{P: p, Layer: count}, []ValueID{x}, []ValueID{y, mask})
	return y
}

func dropoutGrad(b *backward, n *Node) { b.through(n, DropoutGradOp, n.Out[1]) }

// Add sums two values of one shape: the end of a residual block.
func (g *Graph) Add(layer string, x, y ValueID) (ValueID, error) {
	if !g.Shape(x).Equal(g.Shape(y)) {
		return None, fail(layer, AddOp, "the main path gives %v, the shortcut %v: the shortcut needs layers that make them equal", g.Shape(x), g.Shape(y))
	}
	z := g.activation(layer, tensor.F32, g.Shape(x)...)
	g.node(AddOp, layer, nil, []ValueID{x, y}, []ValueID{z})
	return z, nil
}

// addGrad hands the same gradient to both terms.
func addGrad(b *backward, n *Node) {
	for _, x := range n.In {
		if b.needs[x] {
			b.deliver(n, x, b.in(n))
		}
	}
}

// pair prints a size the way users write it: 5, or 3×5.
func pair(h, w int) string {
	if h == w {
		return strconv.Itoa(h)
	}
	return strconv.Itoa(h) + "×" + strconv.Itoa(w)
}
