package graph

import (
	"fmt"
	"maps"
	"slices"
)

// backward holds what the gradient rules share while a graph is differentiated.
type backward struct {
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
	b := &backward{g: g, needs: g.dependsOnParams(), grad: make([]ValueID, len(g.Values))}
	for i := range b.grad {
		b.grad[i] = None
	}
	for b.at = g.forward - 1; b.at >= 0; b.at-- {
		n := g.Nodes[b.at]
		if rule := rules[n.Op]; rule != nil && b.wanted(&n) {
			rule(b, &n)
		}
	}
	return nil
}

// wanted reports whether a node's gradient leads to a parameter: it has to
// have a trained input, and a gradient coming in unless it is the loss itself.
func (b *backward) wanted(n *Node) bool {
	if n.Out[0] != b.g.stats && b.grad[n.Out[0]] == None {
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

// in is the gradient that arrives for the node's first output.
func (b *backward) in(n *Node) ValueID { return b.grad[n.Out[0]] }

// fresh declares a gradient value of the shape of v.
func (b *backward) fresh(v ValueID) ValueID {
	of := b.g.Values[v]
	return b.g.add(Value{Name: of.Name, Kind: Gradient, Spec: of.Spec, Batched: of.Batched, Of: v, Wide: of.Wide})
}

// emit appends a backward node.
func (b *backward) emit(n *Node, op Op, in, out []ValueID) {
	b.g.Nodes = append(b.g.Nodes, Node{Op: op, Layer: n.Layer, Attr: n.Attr, In: in, Out: out, Forward: b.at, Branch: n.Branch})
}

// param is the gradient value of a trained parameter, and None for a frozen or absent one.
func (b *backward) param(v ValueID) ValueID {
	if v == None || !b.needs[v] {
		return None
	}
	p := &b.g.params[b.g.Values[v].Index]
	if p.Gradient == None {
		p.Gradient = b.g.add(Value{Name: p.Name, Kind: ParamGradient, Spec: b.g.Values[v].Spec, Index: b.g.Values[v].Index, Of: v})
	}
	return p.Gradient
}

// deliver hands a gradient to a value; a second one for the same value is summed with the first.
func (b *backward) deliver(n *Node, v, grad ValueID) {
	if b.grad[v] == None {
		b.grad[v] = grad
		return
	}
	sum := b.fresh(v)
	b.emit(n, AddOp, []ValueID{b.grad[v], grad}, []ValueID{sum})
	b.grad[v] = sum
}

// through is the common rule of an operation with one differentiable input x:
// one gradient node that reads saved and the incoming gradient.
func (b *backward) through(n *Node, op Op, saved ...ValueID) {
	x := n.In[0]
	if !b.needs[x] {
		return
	}
	dx := b.fresh(x)
	b.emit(n, op, append(append([]ValueID{}, saved...), b.in(n)), []ValueID{dx})
	b.deliver(n, x, dx)
}

// rules holds the gradient rule of every forward operation.
var rules = map[Op]func(*backward, *Node){
	Conv2DOp: convGrad, LinearOp: linearGrad, EmbeddingOp: embeddingGrad,
	BatchNormOp: batchNormGrad, LayerNormOp: layerNormGrad,
	ReLUOp: outputGrad, SigmoidOp: outputGrad, TanhOp: outputGrad, GELUOp: geluGrad,
	MaxPoolOp: maxPoolGrad, AvgPoolOp: avgPoolGrad, AdaptiveAvgPoolOp: avgPoolGrad,
	FlattenOp: flattenGrad, DropoutOp: dropoutGrad, AddOp: addGrad, BranchOp: branchGrad,
	CrossEntropyOp: lossGrad, MSEOp: lossGrad,
}

// GradOp names the node that computes an operation's input gradient, or all of
// its gradients where they come from one pass.
func (op Op) GradOp() Op { return op + "_grad" }

// Ops lists the forward operations, sorted.
func Ops() []Op { return slices.Sorted(maps.Keys(rules)) }
