package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// types decides the element type of everything. The rules are those of
// torch.autocast (aten/src/ATen/autocast_mode.h) for casts per operation, and of
// apex's O2 and O3 for a model that is itself half. A gradient has the type of
// what it belongs to, as in autograd.
type types struct {
	g      *graph.Graph
	policy contract.Policy
	base   tensor.DType // F32 or F64: statistics, losses, and everything without a policy
	model  tensor.DType // parameters, and activations without casts
	norm   map[graph.ValueID]bool
}

func newTypes(g *graph.Graph, opt Options) types {
	t := types{g: g, base: opt.DType, model: opt.DType, norm: map[graph.ValueID]bool{}}
	if opt.Policy != nil {
		t.policy = *opt.Policy
	}
	if t.policy.Params.Half() {
		t.model = t.policy.Params
	}
	for _, n := range g.Forward() {
		if op.Of(n.Op).Norm.Float32 {
			for _, id := range n.In[1:] {
				t.norm[id] = true
			}
		}
	}
	return t
}

// open reports whether a graph value's type is the plan's to choose.
func (t *types) open(id graph.ValueID) bool { return t.g.Values[id].Spec.DType == tensor.F32 }

// owned is the type of a parameter or buffer in the model's own copy.
func (t *types) owned(id graph.ValueID) tensor.DType {
	switch {
	case !t.open(id):
		return t.g.Values[id].Spec.DType
	case t.norm[id] && t.policy.BatchNormF32:
		return t.base
	}
	return t.model
}

// forward is the type in which a forward node computes, given the present types of its inputs.
func (t *types) forward(n *graph.Node, in []tensor.DType) (tensor.DType, error) {
	c := t.widest(n, in)
	switch t.policy.Casts[string(n.Op)] {
	case contract.CastLower:
		if t.policy.Lower.Valid() {
			c = t.policy.Lower
		}
	case contract.CastF32:
		c = t.base
	case contract.CastBanned:
		return 0, fmt.Errorf("%s (%s): the precision policy %q refuses this operation, it is unsafe in half precision", n.Layer, n.Op, t.policy.Name)
	}
	if op.Of(n.Op).Loss && c.Half() {
		c = t.base // apex hands the criterion float32, autocast lists every loss
	}
	return c, nil
}

// widest is the widest type among the activations a node reads, or among its
// parameters if it reads no floating activation. Two different half types meet in the base type.
func (t *types) widest(n *graph.Node, in []tensor.DType) tensor.DType {
	c, params := tensor.Invalid, tensor.Invalid
	for i, id := range n.In {
		if id == graph.None || !t.open(id) {
			continue
		}
		switch t.g.Values[id].Kind {
		case graph.Parameter:
			params = t.wider(params, in[i])
		case graph.Activation, graph.Input:
			c = t.wider(c, in[i])
		}
	}
	if c == tensor.Invalid {
		return params
	}
	return c
}

func (t *types) wider(a, b tensor.DType) tensor.DType {
	switch {
	case a == b || b == tensor.Invalid:
		return a
	case a == tensor.Invalid:
		return b
	}
	return t.base
}

// made is the type of an output of a forward node that computes in c.
func (t *types) made(id graph.ValueID, c tensor.DType) tensor.DType {
	switch {
	case !t.open(id):
		return t.g.Values[id].Spec.DType
	case t.g.Values[id].Wide:
		return t.base
	}
	return c
}

// fixed reports whether a node reads a value in the type it has: indices,
// statistics and buffers always, and the parameters of norms, which take
// float32 ones beside half activations.
func (t *types) fixed(of graph.Op, id graph.ValueID) bool {
	v := &t.g.Values[id]
	return !t.open(id) || v.Wide || v.Kind == graph.Buffer || v.Kind == graph.Parameter && mixed(of)
}

// gradient is the type in which a backward node writes a gradient whose home has the type have.
func (t *types) gradient(of graph.Op, id graph.ValueID, c, have tensor.DType) tensor.DType {
	if t.g.Values[id].Kind == graph.ParamGradient && mixed(of) {
		return have
	}
	return c
}

func mixed(of graph.Op) bool { return op.StepOf(of).Mixed }

type castKey struct {
	val int
	to  tensor.DType
}

// cast gives a value in another type. Each pair is cast once per run of the
// plan: a weight that several steps want in half is rounded once, as autocast's
// cache does, and backward finds the copies that forward made.
func (l *lowering) cast(v int, to tensor.DType, name string) int {
	if l.vals[v].spec.DType == to {
		return v
	}
	key := castKey{v, to}
	if c, ok := l.casts[key]; ok {
		return c
	}
	c := l.declare(tensor.Spec{DType: to, Shape: l.vals[v].spec.Shape}, PlaceArena, 0)
	l.casts[key] = c
	l.steps = append(l.steps, draft{op: op.Cast, layer: name, in: []int{v}, out: []int{c}, branch: l.branch})
	return c
}
