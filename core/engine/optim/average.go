package optim

import (
	"strings"

	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/tensor"
)

// averageKind is what State calls exponential moving averages of weights.
const averageKind = "ema"

// average adds a parameter's weights to their exponential moving average, which the first step
// makes a copy of them: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn. Half
// parameters are averaged in float32, from their master copies where they have any.
func (o *Optimizer) average(s *slot) {
	d := o.cfg.EMADecay
	switch {
	case d == 0:
	case *o.count() == 1:
		copyAs(s.ema, s.precise())
	case s.ema.DType == tensor.F64:
		optimizer.Average(s.ema.F64(), s.precise().F64(), 1-d)
	default:
		if s.narrow() { // scratch has another parameter's, where this one was left alone
			copyAs(s.weight, s.value)
		}
		optimizer.Average(s.ema.F32(), s.weight.F32(), 1-d)
	}
}

// precise are the weights in the best type that they have.
func (s *slot) precise() tensor.Tensor {
	if s.narrow() {
		return s.value
	}
	return s.weight
}

// HasAverage reports whether there are averages: with ema_decay, after the first step.
func (o *Optimizer) HasAverage() bool { return o.cfg.EMADecay > 0 && *o.count() > 0 }

// Averages are the moving averages, of the elements that are updated here; views of live memory.
func (o *Optimizer) Averages() (list []tensor.Tensor) {
	for i := range o.params {
		list = append(list, o.params[i].ema)
	}
	return list
}

// UseAverage exchanges the weights that the model computes with for their averages, and when it is
// called again, back. Nothing else may be done with the optimizer in between.
func (o *Optimizer) UseAverage() {
	if o.away != nil {
		if err := o.away.updater.ExchangeAverages(); err != nil {
			o.away.fail(err)
		}
		return
	}
	for i := range o.params {
		s := &o.params[i]
		if !s.value.DType.Half() {
			v, e := s.value.Data, s.ema.Data
			for j := range v {
				v[j], e[j] = e[j], v[j]
			}
			continue
		}
		if s.aside == nil {
			s.aside = append(s.aside, s.value.Data...)
			copyAs(s.value, s.ema)
		} else {
			copy(s.value.Data, s.aside)
			s.aside = nil
		}
	}
}

// Averages are a model's tensors of a checkpoint with averages in the places of its weights, which State
// gave; nil where it gave none. Those that are not averaged, such as buffers and what is frozen, stay.
func Averages(model, state []tensor.Named) (out []tensor.Named) {
	of := map[string]tensor.Tensor{}
	for _, t := range state {
		if name, ok := strings.CutPrefix(t.Name, averageKind+"."); ok {
			of[name] = t.Tensor
		}
	}
	if len(of) == 0 {
		return nil
	}
	for _, t := range model {
		if e, ok := of[t.Name]; ok {
			t.Tensor = e
		}
		out = append(out, t)
	}
	return out
}
