package plan

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// Memory is what a program needs, in bytes.
type Memory struct {
	Params      int // the model's copy
	Grads       int
	Buffers     int
	Activations int // the arena, shared by lifetime
	Workspace   int // scratch of the steps: the largest, or what the arena has no room for beside the values of its step

	Kept  int // of Activations: what forward keeps for backward
	Again int // what backward recomputes instead
}

// Memory adds up what the plan needs on a device. Params, Grads and Buffers are
// shared by all programs of a State; the rest is each program's own.
func (p *Plan) Memory(dev Device) Memory {
	m := Memory{Activations: p.arena.size, Kept: p.use.kept, Again: p.use.again}
	for i, e := range p.graph.StateDict() {
		if e.Buffer {
			m.Buffers += p.state[i].Bytes()
		} else {
			m.Params += p.state[i].Bytes()
		}
	}
	if p.Train {
		for _, s := range p.grads {
			m.Grads += s.Bytes()
		}
	}
	need := func(i int) int { return dev.Workspace(&p.steps[i]) }
	if r, shares := dev.(Reserver); shares && r.Packs() {
		m.Workspace = p.Pack(p.steps, need).Size - p.arena.size
		return m
	}
	for i := range p.steps {
		m.Workspace = max(m.Workspace, need(i))
	}
	return m
}

// cost counts a step's floating point operations, the bytes it has to move at least, and those of them that it writes.
func cost(s *Step) (flops, bytes, written int64) {
	written = size(s.Out)
	bytes = size(s.In) + written
	switch step := op.StepOf(s.Op); {
	case step.Stated != nil:
		flops = step.Stated(s.Attr, s.In[0].Spec.Shape[0])
	case step.Cost != nil:
		flops = step.Cost(specs(s.In), specs(s.Out))
	}
	return flops, bytes, written
}

// size is the bytes of operands.
func size(list []Operand) (bytes int64) {
	for i := range list {
		bytes += int64(list[i].Spec.Bytes())
	}
	return bytes
}

// specs are the types and shapes of operands, zero where absent.
func specs(list []Operand) []tensor.Spec {
	all := make([]tensor.Spec, len(list))
	for i := range list {
		all[i] = list[i].Spec
	}
	return all
}
