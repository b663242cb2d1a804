package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// names are what errors call the tensors of a State.
type names struct {
	state []string
	grads []string // by parameter; "" where it is not trained
}

func namesOf(g *graph.Graph) (n names) {
	for _, e := range g.StateDict() {
		n.state = append(n.state, e.Name)
	}
	for _, p := range g.Params() {
		name := ""
		if p.RequiresGrad {
			name = p.Name
		}
		n.grads = append(n.grads, name)
	}
	return n
}

// Parts are the parts of a plan that was not compiled from a graph. Every operand of
// the steps may lie in the State, outputs too, so that a test of a device can see
// what one operation makes of which input.
type Parts struct {
	Batch         int
	Train         bool
	DType         tensor.DType // of the kernels that compute wide: F32 or F64
	Steps         []Step
	State, Grads  []tensor.Spec
	Input, Target tensor.Spec // with the batch dimension; zero if there is none
	Arena         int         // bytes that the steps' operands take there
	Branches      []graph.Branch
}

// StatsOperand is where the loss of a plan of these parts reports: behind everything else in the arena.
func (p *Parts) StatsOperand() Operand {
	return Operand{Spec: tensor.Spec{DType: tensor.F64, Shape: tensor.Shape{3}}, Place: PlaceArena, Offset: tensor.RoundUp(p.Arena, align)}
}

// Assemble makes a plan of parts. The caller answers for the steps: nothing is checked.
func Assemble(parts Parts) *Plan {
	p := &Plan{
		Batch: parts.Batch, Train: parts.Train, DType: parts.DType, steps: parts.Steps, state: parts.State, grads: parts.Grads,
		branches: parts.Branches,
		stats:    parts.StatsOperand(), input: parts.Input, tgt: parts.Target,
	}
	p.arena.size = p.stats.Offset + tensor.RoundUp(p.stats.Spec.Bytes(), align)
	p.arena.placed, p.arena.fixed = []*block{{last: len(p.steps), size: p.arena.size}}, true // lifetimes are unknown
	for i := range parts.State {
		p.names.state = append(p.names.state, fmt.Sprintf("state %d", i))
	}
	for i := range parts.Grads {
		p.names.grads = append(p.names.grads, fmt.Sprintf("parameter %d", i))
	}
	p.gradOrder, p.backward, p.elements = gradOrder(p.steps), firstBackward(p.steps), countsElements(p.steps)
	return p
}

// Batches are the types and shapes of the samples and targets that a run takes.
func (p *Plan) Batches() (input, target tensor.Spec) { return p.input, p.tgt }
