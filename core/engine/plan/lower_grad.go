package plan

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// backward writes a gradient node in the type its forward node ran in. A
// gradient takes the type of what it belongs to, so it is cast where they differ.
func (l *lowering) backward(n *graph.Node) {
	l.branch = n.Branch
	if l.moves(n) {
		l.rename(n)
		return
	}
	c := l.compute[n.Forward]
	if n.Op == graph.Sum { // the sum of a value's gradients, in the value's own type
		c = l.vals[l.home[l.g.Values[n.Out[0]].Of]].spec.DType
	}
	d := draft{op: n.Op, layer: n.Layer, attr: n.Attr, in: l.inputs(n, c), out: make([]int, len(n.Out)), branch: n.Branch}
	if synced := op.Of(n.Op).Norm.Synced[n.Op]; synced != "" && l.opt.SyncBatchNorm {
		d.op = synced
	}
	var after []draft
	for i, id := range n.Out {
		if d.out[i] = absent; id == graph.None {
			continue
		}
		d.out[i] = l.gradient(id)
		have := l.vals[d.out[i]].spec.DType
		if want := l.types.gradient(n.Op, id, c, have); want != have {
			raw := l.activation(id, want)
			after = append(after, draft{op: op.Cast, layer: l.g.Values[id].Name + ".grad", in: []int{raw}, out: []int{d.out[i]}, branch: n.Branch})
			d.out[i] = raw
		}
	}
	l.steps = append(append(l.steps, d), after...)
}

// gradient declares the value of a gradient in the type of what it belongs to.
func (l *lowering) gradient(id graph.ValueID) int {
	v := l.g.Values[id]
	if l.home[id] != absent { // a parameter's second contribution
		return l.home[id]
	}
	d := l.vals[l.home[v.Of]].spec.DType
	if v.Kind == graph.ParamGradient {
		l.home[id] = l.declare(tensor.Spec{DType: d, Shape: v.Spec.Shape}, PlaceGrad, v.Index)
	} else {
		l.home[id] = l.activation(id, d)
	}
	return l.home[id]
}
