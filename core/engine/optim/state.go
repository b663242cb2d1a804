package optim

import (
	"fmt"
	"sort"
	"strings"

	"github.com/trainctl/trainctl/core/tensor"
)

// State lists what a checkpoint keeps: "step" (an I64 scalar), then for each
// parameter "<kind>.<name>" with PyTorch's kinds, and "master.<name>" for
// master copies, "ema.<name>" for moving averages and "step.<name>" for optional parameters. State of half parameters without one is half. The tensors are views of live memory that the next Step changes;
// where only a part of a parameter is updated, they have the parameter's shape and the part's data.
func (o *Optimizer) State() (out []tensor.Named) {
	o.each(func(name string, t tensor.Tensor, _ int) { out = append(out, tensor.Named{Name: name, Tensor: t}) })
	return out
}

// each calls f for every tensor of State. from is the element of the whole tensor with which
// its data begin.
func (o *Optimizer) each(f func(name string, t tensor.Tensor, from int)) {
	f("step", tensor.Of(tensor.I64, tensor.Shape{}, o.step), 0)
	kinds := o.rule.state(o.cfg)
	for i := range o.params {
		s, from := &o.params[i], 0
		if s.Part != nil {
			from = s.Part.From
		}
		add := func(kind string, t tensor.Tensor) {
			f(kind+"."+s.Name, tensor.Tensor{DType: t.DType, Shape: s.Value.Shape, Data: t.Data}, from)
		}
		for k, kind := range kinds {
			add(kind, s.state[k])
		}
		if s.ema.Data != nil {
			add(averageKind, s.ema)
		}
		if s.Optional {
			f("step."+s.Name, tensor.Of(tensor.I64, tensor.Shape{}, s.steps), 0)
		}
		if s.Master.DType != tensor.Invalid {
			add("master", s.Master)
		}
	}
}

// Load copies a state that State gave, in any order, into the optimizer and
// rounds master copies into their half values. It lists everything that does
// not fit in one error and then leaves the optimizer as it was.
func (o *Optimizer) Load(state []tensor.Named) error {
	have := make(map[string]tensor.Tensor, len(state))
	for _, t := range state {
		have[t.Name] = t.Tensor
	}
	want := o.State()
	state = append(state, o.commonSteps(have)...)
	var wrong []string
	for _, w := range want {
		h, ok := have[w.Name]
		delete(have, w.Name)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s is missing", w.Name))
		case h.DType != w.DType || !h.Shape.Equal(w.Shape):
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", w.Name, h.Spec(), w.Spec()))
		}
	}
	for name := range have {
		wrong = append(wrong, fmt.Sprintf("%s belongs to no parameter of this %s", name, o.cfg.Name))
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return fmt.Errorf("optimizer state does not fit [optimizer] name = %q and the model: %s", o.cfg.Name, few(wrong))
	}
	o.take(state)
	return nil
}

// few joins a list of which the first ones tell what is wrong.
func few(list []string) string {
	const enough = 6
	if rest := len(list) - enough; rest > 1 {
		list = append(list[:enough:enough], fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(list, "; ")
}

// commonSteps adds to a state the counts of optional parameters that were not
// optional when it was saved: all have the common count.
func (o *Optimizer) commonSteps(have map[string]tensor.Tensor) (out []tensor.Named) {
	step, ok := have["step"]
	for i := range o.params {
		name := "step." + o.params[i].Name
		if _, own := have[name]; ok && o.params[i].Optional && !own {
			have[name] = step
			out = append(out, tensor.Named{Name: name, Tensor: step})
		}
	}
	return out
}

func (o *Optimizer) take(state []tensor.Named) {
	from := make(map[string][]byte, len(state))
	for _, t := range state {
		from[t.Name] = t.Data
	}
	o.each(func(name string, t tensor.Tensor, at int) { copy(t.Data, from[name][at*t.DType.Size():]) })
	for i := range o.params {
		if s := &o.params[i]; s.Master.Data != nil {
			copyAs(s.value, s.Master)
		}
	}
	o.pending = 1
}
