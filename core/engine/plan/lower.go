package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// absent is the value of an optional operand that is not there.
const absent = -1

// val is a tensor of the plan while it is made.
type val struct {
	spec   tensor.Spec
	place  Place
	index  int
	alias  int // the value whose memory this one is, itself for most
	shift  int // bytes from that value's start to this one's
	offset int
}

// draft is a step while it is made: operands are values, not yet places.
type draft struct {
	op       graph.Op
	layer    string
	attr     any
	in, out  []int
	branch   int
	again    bool
	slope    bool // Step.KeepSlope
	row      int  // Step.Row
	made     int  // what a gradient makes again, in it and in the steps that wait for that; else 0
	complete []int
}

// lowering carries the passes of one compilation.
type lowering struct {
	g       *graph.Graph
	opt     Options
	types   types
	vals    []val
	home    []int          // by graph value: the plan value that holds it
	compute []tensor.DType // by forward node: the type it runs in
	casts   map[castKey]int
	steps   []draft
	branch  int // of the node at hand

	samples    []tensor.Spec // by graph value: of one sample, where batched
	extra      []tensor.Spec // tensors of the State behind those of the state dict
	extraNames []string
	kept       map[int][]int // by forward node: the values that it keeps
}

func newLowering(g *graph.Graph, opt Options) *lowering {
	l := &lowering{g: g, opt: opt, types: newTypes(g, opt), home: make([]int, len(g.Values)), casts: map[castKey]int{}}
	for i := range l.home {
		l.home[i] = absent
	}
	l.compute = make([]tensor.DType, len(g.Forward()))
	for i := range g.Values {
		l.samples = append(l.samples, g.Values[i].Spec)
	}
	return l
}

// lower writes the steps of every node the mode runs.
func (l *lowering) lower() error {
	l.owned()
	for i := range l.g.Forward() {
		if l.opt.Output && op.Of(l.g.Nodes[i].Op).Loss {
			return l.output()
		}
		if l.opt.Logits && op.Of(l.g.Nodes[i].Op).Loss {
			if err := l.output(); err != nil {
				return err
			}
		}
		if err := l.forward(&l.g.Nodes[i]); err != nil {
			return err
		}
	}
	if l.opt.Train {
		back := l.g.Backward()
		for i := range back {
			l.backward(&back[i])
		}
	}
	return nil
}

// owned declares the values whose memory the caller owns. The batch is cast to
// the model's type once, where it enters.
func (l *lowering) owned() {
	for id, v := range l.g.Values {
		switch v.Kind {
		case graph.Input:
			l.home[id] = l.declare(l.at(graph.ValueID(id)), PlaceInput, 0)
		case graph.Target:
			l.home[id] = l.declare(l.at(graph.ValueID(id)), PlaceTarget, 0)
		}
	}
	for i, e := range l.g.StateDict() {
		id := l.entryValue(e)
		l.home[id] = l.declare(tensor.Spec{DType: l.types.owned(id), Shape: e.Spec.Shape}, PlaceState, i)
	}
	l.keep()
	in := l.g.Input()
	if l.vals[l.home[in]].spec.DType.Float() {
		l.home[in] = l.cast(l.home[in], l.types.model, "input")
	}
}

func (l *lowering) entryValue(e graph.Entry) graph.ValueID {
	if e.Buffer {
		return l.g.Buffers()[e.Index].Value
	}
	return l.g.Params()[e.Index].Value
}

func (l *lowering) declare(spec tensor.Spec, place Place, index int) int {
	l.vals = append(l.vals, val{spec: spec, place: place, index: index, alias: len(l.vals)})
	return len(l.vals) - 1
}

// activation declares an arena value for a graph value in the given type.
func (l *lowering) activation(id graph.ValueID, d tensor.DType) int {
	spec := l.at(id)
	spec.DType = d
	return l.declare(spec, PlaceArena, 0)
}

// moves reports whether a node only renames its input.
func (l *lowering) moves(n *graph.Node) bool {
	switch op.Of(n.Op).Renames {
	case op.Always:
		return true
	case op.InEvaluation:
		return !l.opt.Train
	}
	return false
}

// rename gives the node's first output the memory of its first input.
func (l *lowering) rename(n *graph.Node) {
	in := l.home[n.In[0]]
	spec := l.at(n.Out[0])
	spec.DType = l.vals[in].spec.DType
	out := l.declare(spec, l.vals[in].place, l.vals[in].index)
	l.vals[out].alias = l.vals[in].alias
	l.home[n.Out[0]] = out
}

func (l *lowering) forward(n *graph.Node) error {
	l.branch = n.Branch
	if l.moves(n) {
		l.rename(n)
		return nil
	}
	c, err := l.types.forward(n, l.inputTypes(n))
	if err != nil {
		return err
	}
	l.compute[n.Forward] = c
	d := draft{op: n.Op, layer: n.Layer, attr: n.Attr, in: append(l.inputs(n, c), l.kept[n.Forward]...), branch: n.Branch}
	for _, id := range n.Out {
		l.home[id] = l.activation(id, l.types.made(id, c))
		d.out = append(d.out, l.home[id])
	}
	if err := l.norm(n, &d); err != nil {
		return err
	}
	l.steps = append(l.steps, d)
	return nil
}

// norm leaves what only training needs out of an evaluation, and refuses to
// train where a batch has no statistics. Over several ranks there are, until all
// but one have run out of data (ddp.uneven): the running variance then stays.
func (l *lowering) norm(n *graph.Node, d *draft) error {
	norm := op.Of(n.Op).Norm
	if k := norm.EvalOutputs; k > 0 && !l.opt.Train {
		d.out = d.out[:k]
	}
	if norm.Frozen != nil && l.opt.Train {
		if frozen := norm.Frozen(n.Attr); frozen != "" {
			d.op, d.out = frozen, d.out[:norm.EvalOutputs]
			return nil
		}
	}
	if synced := norm.Synced[n.Op]; synced != "" && l.opt.Train && l.opt.SyncBatchNorm {
		d.op = synced
		return nil
	}
	if norm.CheckTrain == nil || !l.opt.Train {
		return nil
	}
	if err := norm.CheckTrain(l.vals[d.in[0]].spec.Shape); err != nil {
		return fmt.Errorf("plan: %s (%s): %w", n.Layer, n.Op, err)
	}
	return nil
}

func (l *lowering) inputTypes(n *graph.Node) []tensor.DType {
	d := make([]tensor.DType, len(n.In))
	for i, id := range n.In {
		if id != graph.None {
			d[i] = l.vals[l.home[id]].spec.DType
		}
	}
	return d
}

// inputs are the node's inputs, cast to the type it computes in.
func (l *lowering) inputs(n *graph.Node, c tensor.DType) []int {
	in := make([]int, len(n.In))
	for i, id := range n.In {
		switch {
		case id == graph.None:
			in[i] = absent
		case l.types.fixed(n.Op, id):
			in[i] = l.home[id]
		default:
			in[i] = l.cast(l.home[id], c, l.g.Values[id].Name)
		}
	}
	return in
}

// finish turns drafts into steps.
func (l *lowering) finish() []Step {
	steps := make([]Step, len(l.steps))
	written := map[int]bool{}
	for i, d := range l.steps {
		s := Step{Op: d.op, Layer: d.layer, Attr: d.attr, Train: l.opt.Train, Branch: d.branch, Again: d.again, Complete: d.complete, KeepSlope: d.slope, Row: d.row, Positions: l.opt.Positions}
		for _, v := range d.in {
			s.In = append(s.In, l.operand(v, false))
		}
		for _, v := range d.out {
			add := v != absent && l.vals[v].place == PlaceGrad && written[v]
			s.Out = append(s.Out, l.operand(v, add))
			written[v] = true
		}
		s.FLOPs, s.Bytes, s.Written = cost(&s)
		steps[i] = s
	}
	return steps
}

func (l *lowering) operand(v int, add bool) Operand {
	if v == absent {
		return Operand{}
	}
	x := &l.vals[v]
	return Operand{Spec: x.spec, Place: x.place, Index: x.index, Offset: l.vals[x.alias].offset + x.shift, Add: add}
}

func (l *lowering) stateSpecs() []tensor.Spec {
	specs := make([]tensor.Spec, len(l.g.StateDict()))
	for i, e := range l.g.StateDict() {
		specs[i] = l.vals[l.home[l.entryValue(e)]].spec
	}
	return specs
}

func (l *lowering) gradSpecs() []tensor.Spec {
	specs := make([]tensor.Spec, len(l.g.Params()))
	for i, p := range l.g.Params() {
		specs[i] = l.vals[l.home[p.Value]].spec
	}
	return specs
}

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
