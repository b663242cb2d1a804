package graph

import (
	"fmt"
	"slices"
)

// Sum is the one operation that differentiation adds of its own: it adds up the
// gradients that arrive for one value.
const Sum Op = "add"

// Rule appends the gradient of a node: it reads b.In(n), emits nodes, and
// delivers to each input that needs it, and to parameters, their gradients.
type Rule func(b *Backward, n *Node)

// Backward is a graph while it is differentiated.
type Backward struct {
	g     *Graph
	at    int       // the forward node at hand
	needs []bool    // by value: depends on a trained parameter
	grad  []ValueID // by value: its gradient so far
}

// Differentiate appends the gradient of the loss with respect to every trained
// parameter. Nodes are visited against the order in which they were made, as
// autograd does, so the last layer's gradients come first. A graph without a
// loss is an error; calling it twice panics.
func (g *Graph) Differentiate() error {
	if g.forward != 0 {
		panic("graph: differentiated twice")
	}
	if g.stats == None {
		return fmt.Errorf("graph: no loss to differentiate")
	}
	g.forward = len(g.Nodes)
	b := &Backward{g: g, needs: g.dependsOnParams(), grad: make([]ValueID, len(g.Values))}
	for i := range b.grad {
		b.grad[i] = None
	}
	for b.at = g.forward - 1; b.at >= 0; b.at-- {
		n := g.Nodes[b.at]
		if n.Gradient != nil && b.wanted(&n) {
			n.Gradient(b, &n)
		}
	}
	return nil
}

// wanted reports whether a node's gradient leads to a parameter: it has to
// have a trained input, and a gradient coming in unless it is the loss itself.
func (b *Backward) wanted(n *Node) bool {
	if n.Out[0] != b.g.stats && !slices.ContainsFunc(n.Out, func(v ValueID) bool { return b.grad[v] != None }) {
		return false
	}
	for _, v := range n.In {
		if v != None && b.needs[v] {
			return true
		}
	}
	return false
}

func (g *Graph) dependsOnParams() []bool {
	needs := make([]bool, len(g.Values))
	for _, p := range g.params {
		needs[p.Value] = p.RequiresGrad
	}
	for _, n := range g.Nodes {
		for _, in := range n.In {
			if in != None && needs[in] {
				for _, out := range n.Out {
					needs[out] = true
				}
			}
		}
	}
	return needs
}

// In is the gradient that arrives for the node's first output.
func (b *Backward) In(n *Node) ValueID { return b.grad[n.Out[0]] }

// Grad is the gradient that arrives for a value, None if none does.
func (b *Backward) Grad(v ValueID) ValueID { return b.grad[v] }

// Fresh declares a gradient value of the shape of v.
func (b *Backward) Fresh(v ValueID) ValueID {
	of := b.g.Values[v]
	return b.g.add(Value{Name: of.Name, Kind: Gradient, Spec: of.Spec, Batched: of.Batched, Of: v, Wide: of.Wide})
}

// Emit appends a backward node.
func (b *Backward) Emit(n *Node, op Op, in, out []ValueID) {
	b.g.Nodes = append(b.g.Nodes, Node{Op: op, Layer: n.Layer, Attr: n.Attr, In: in, Out: out, Forward: b.at, Branch: n.Branch})
}

// Param is the gradient value of a trained parameter, and None for a frozen or absent one.
func (b *Backward) Param(v ValueID) ValueID {
	if v == None || !b.needs[v] {
		return None
	}
	p := &b.g.params[b.g.Values[v].Index]
	if p.Gradient == None {
		p.Gradient = b.g.add(Value{Name: p.Name, Kind: ParamGradient, Spec: b.g.Values[v].Spec, Index: b.g.Values[v].Index, Of: v})
	}
	return p.Gradient
}

// Deliver hands a gradient to a value; a second one for the same value is summed with the first.
func (b *Backward) Deliver(n *Node, v, grad ValueID) {
	if b.grad[v] == None {
		b.grad[v] = grad
		return
	}
	sum := b.Fresh(v)
	b.Emit(n, Sum, []ValueID{b.grad[v], grad}, []ValueID{sum})
	b.grad[v] = sum
}

// Needs reports whether a value depends on a trained parameter.
func (b *Backward) Needs(v ValueID) bool { return b.needs[v] }

// Through is the common rule of an operation with one differentiable input: one
// gradient node that reads saved and the incoming gradient.
func (b *Backward) Through(n *Node, op Op, saved ...ValueID) {
	b.Input(n, op, append(append([]ValueID{}, saved...), b.In(n))...)
}

// Input gives the node's first input its gradient, if it needs one, by a node
// that reads in.
func (b *Backward) Input(n *Node, op Op, in ...ValueID) {
	x := n.In[0]
	if !b.needs[x] {
		return
	}
	dx := b.Fresh(x)
	b.Emit(n, op, in, []ValueID{dx})
	b.Deliver(n, x, dx)
}
