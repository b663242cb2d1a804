package plan

import "github.com/trainctl/trainctl/core/graph"

// Memory is what a program needs, in bytes.
type Memory struct {
	Params      int // the model's copy
	Grads       int
	Buffers     int
	Activations int // the arena, shared by lifetime
	Workspace   int // the largest scratch of any step on the device
}

// Memory adds up what the plan needs on a device. Params, Grads and Buffers are
// shared by all programs of a State; the rest is each program's own.
func (p *Plan) Memory(dev Device) Memory {
	m := Memory{Activations: p.arena}
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
	for i := range p.steps {
		m.Workspace = max(m.Workspace, dev.Workspace(&p.steps[i]))
	}
	return m
}

// cost counts a step's floating point operations, a multiplication and an
// addition as two, and the bytes it has to move at least.
func cost(s *Step) (flops, bytes int64) {
	for _, list := range [2][]Operand{s.In, s.Out} {
		for i := range list {
			bytes += int64(list[i].Spec.Bytes())
		}
	}
	elems := func(o []Operand, i int) int64 {
		if i >= len(o) || !o[i].Present() {
			return 0
		}
		return int64(o[i].Spec.Shape.Elems())
	}
	switch s.Op {
	case graph.Conv2DOp: // every output element is a dot product over the filter
		k := s.In[1].Spec.Shape
		return 2*elems(s.Out, 0)*int64(k[1]*k[2]*k[3]) + elems(s.Out, 0)*min(elems(s.In, 2), 1), bytes
	case graph.Conv2DGradInputOp:
		k := s.In[1].Spec.Shape
		return 2 * elems(s.In, 0) * int64(k[1]*k[2]*k[3]), bytes
	case graph.Conv2DGradWeightOp:
		k := s.Out[0].Spec.Shape
		return 2 * elems(s.In, 1) * int64(k[1]*k[2]*k[3]), bytes
	case graph.LinearOp, LinearReLUOp:
		return 2*elems(s.Out, 0)*int64(s.In[1].Spec.Shape[1]) + elems(s.Out, 0)*min(elems(s.In, 2), 1), bytes
	case graph.LinearGradInputOp, LinearGradInputReLUOp:
		return 2 * elems(s.In, 0) * int64(s.In[1].Spec.Shape[1]), bytes
	case graph.LinearGradWeightOp:
		return 2 * elems(s.In, 1) * int64(s.Out[0].Spec.Shape[1]), bytes
	}
	return perElement[s.Op] * elems(s.In, 0), bytes
}

// perElement counts operations per element of the first input, roughly, for
// the steps that memory bounds.
var perElement = map[graph.Op]int64{
	graph.Conv2DGradBiasOp: 1, graph.LinearGradBiasOp: 1, graph.AddOp: 1,
	graph.BatchNormOp: 7, graph.BatchNormGradOp: 9, SyncBatchNormOp: 7, SyncBatchNormGradOp: 9, graph.LayerNormOp: 7, graph.LayerNormGradOp: 9,
	NormPoolOp: 9, NormPoolGradOp: 12, NormReLUOp: 8, NormReLUGradOp: 10, graph.ReLUOp: 1, graph.ReLUGradOp: 1, graph.SigmoidOp: 4, graph.SigmoidGradOp: 3,
	graph.TanhOp: 4, graph.TanhGradOp: 3, graph.GELUOp: 8, graph.GELUGradOp: 12,
	graph.MaxPoolOp: 1, graph.AvgPoolOp: 1, graph.AvgPoolGradOp: 1, graph.AdaptiveAvgPoolOp: 1, graph.AdaptiveAvgPoolGradOp: 1,
	graph.DropoutOp: 1, graph.DropoutGradOp: 1, graph.CrossEntropyOp: 6, graph.CrossEntropyGradOp: 6, graph.MSEOp: 3, graph.MSEGradOp: 2,
}
