package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// at is the specification of a graph value in this plan.
func (l *lowering) at(id graph.ValueID) tensor.Spec {
	v := l.g.Values[id]
	v.Spec = l.samples[id]
	return v.At(l.opt.Batch)
}

// divide finds the shapes of all values for some positions of a sample, and what the
// layers keep of those before.
func (l *lowering) divide() error {
	if l.opt.Positions == 0 {
		return nil
	}
	l.kept = map[int][]int{}
	input := l.samples[l.g.Input()].Shape
	if len(input) == 0 || l.opt.Positions > input[0] {
		return fmt.Errorf("plan: %d positions of samples of %v", l.opt.Positions, input)
	}
	l.samples[l.g.Input()].Shape = append(tensor.Shape{l.opt.Positions}, input[1:]...)
	for i := range l.g.Forward() {
		n := &l.g.Nodes[i]
		if op.Of(n.Op).Loss {
			break
		}
		if err := l.divideNode(n, input[0]); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	return nil
}

func (l *lowering) divideNode(n *graph.Node, most int) error {
	in := make([]graph.Value, len(n.In))
	for i, id := range n.In {
		if id != graph.None {
			in[i] = l.g.Values[id]
			in[i].Spec = l.samples[id]
		}
	}
	kept, err := op.AtPositions(n, in, most)
	if err != nil {
		return err
	}
	out, err := op.Of(n.Op).Outputs(in, n.Attr)
	if err != nil {
		return err
	}
	for i, id := range n.Out {
		l.samples[id].Shape = out[i].Spec.Shape
	}
	for i, shape := range kept {
		l.kept[n.Forward] = append(l.kept[n.Forward], len(l.extra))
		l.addTensor(fmt.Sprintf("%s, kept %d", n.Layer, i), tensor.Spec{DType: l.opt.DType, Shape: shape})
	}
	return nil
}

func (l *lowering) addTensor(name string, spec tensor.Spec) {
	l.extra, l.extraNames = append(l.extra, spec), append(l.extraNames, name)
}

// keep declares the values that layers keep, which lie behind the output in the State.
func (l *lowering) keep() {
	for node, list := range l.kept {
		for i, at := range list {
			l.kept[node][i] = l.declare(l.extra[at], PlaceState, len(l.g.StateDict())+1+at)
		}
	}
}

// output ends a plan without a loss: what the model computes goes to the State.
func (l *lowering) output() error {
	out := l.cast(l.home[l.g.Output()], l.opt.DType, "output")
	root := l.vals[out].alias
	if l.vals[root].place != PlaceArena {
		return fmt.Errorf("plan: the model computes nothing from its samples")
	}
	for v := range l.vals {
		if l.vals[v].alias == root {
			l.vals[v].place, l.vals[v].index = PlaceState, len(l.g.StateDict())
		}
	}
	l.extra = append([]tensor.Spec{l.vals[out].spec}, l.extra...)
	l.extraNames = append([]string{"output"}, l.extraNames...)
	return nil
}

// reports reports whether a value is what the loss reports.
func (l *lowering) reports(root int) bool {
	stats := l.home[l.g.Stats()]
	return stats != absent && l.vals[stats].alias == root
}

// Output is where StateSpecs has the output of a plan with Options.Output. What layers keep
// follows it.
func (p *Plan) Output() int { return len(p.graph.StateDict()) }

func (p *Plan) positions() int {
	if p.most == 0 {
		return 0
	}
	return p.input.Shape[1]
}
