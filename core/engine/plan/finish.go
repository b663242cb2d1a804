package plan

import "github.com/trainctl/trainctl/core/tensor"

// finish turns drafts into steps.
func (l *lowering) finish() []Step {
	steps := make([]Step, len(l.steps))
	written := map[int]bool{}
	for i, d := range l.steps {
		s := Step{Op: d.op, Layer: d.layer, Attr: d.attr, Train: l.opt.Train, Branch: d.branch, Again: d.again, Complete: d.complete, KeepSlope: d.slope, Row: d.row}
		for _, v := range d.in {
			s.In = append(s.In, l.operand(v, false))
		}
		for _, v := range d.out {
			add := v != absent && l.vals[v].place == PlaceGrad && written[v]
			s.Out = append(s.Out, l.operand(v, add))
			written[v] = true
		}
		s.FLOPs, s.Bytes = cost(&s)
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
