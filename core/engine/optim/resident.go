package optim

import (
	"errors"
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// away is an optimizer whose arithmetic a device does, in its own memory.
type away struct {
	dev      plan.Resident
	updater  plan.Updater
	tensors  [][]byte // what the device has of the optimizer's own: state and master copies
	releases []func() error
	steps    []int64
	err      error
}

// Move gives the arithmetic to a device. Values and gradients lie in memory
// that was mirrored there; state and master copies are mirrored here, until
// Return. From then on methods enqueue, and Err reports failures.
// A device that has no rule for the optimizer refuses it by name, as the
// [usererr.Error] of a setting.
func (o *Optimizer) Move(dev plan.Resident) (err error) {
	a := &away{dev: dev, steps: make([]int64, len(o.params))}
	o.away = a
	slots := make([]plan.Slot, len(o.params))
	for i := range o.params {
		s := &o.params[i]
		weight := s.value
		if s.Master.Data != nil {
			weight = s.Master
			err = errors.Join(err, a.mirror(weight.Data))
		}
		for _, t := range s.state {
			err = errors.Join(err, a.mirror(t.Data))
		}
		if s.ema.Data != nil {
			err = errors.Join(err, a.mirror(s.ema.Data))
		}
		own := o.rule.numbers(s.cfg)
		slots[i] = plan.Slot{Value: s.value, Weight: weight, Grad: s.own, State: s.state, Average: s.ema, Rule: &own, LRScale: s.lrScale}
	}
	if err == nil {
		a.updater, err = dev.Updater(o.rule.numbers(o.cfg), slots)
	}
	if err != nil {
		return errors.Join(refused(err), o.Return())
	}
	return nil
}

// refused makes a device's lack of a rule a problem of the setting.
func refused(err error) error {
	var none *plan.NoRuleError
	if !errors.As(err, &none) {
		return err
	}
	var l usererr.List
	l.Addf("optimizer.name", `set run.device = "cpu", or use `+quoted(none.Has), "%v", none)
	return l.Err()
}

func (a *away) mirror(mem []byte) error {
	release, _, err := a.dev.Mirror(mem)
	if err == nil {
		a.tensors, a.releases = append(a.tensors, mem), append(a.releases, release)
	}
	return err
}

// Return frees the device memory. State has the values of the last Fetch.
func (o *Optimizer) Return() (err error) {
	a := o.away
	if a == nil {
		return nil
	}
	o.away = nil
	if a.updater != nil {
		err = a.updater.Close()
	}
	for _, release := range a.releases {
		err = errors.Join(err, release())
	}
	return err
}

// Fetch copies state and master copies from the device, Store copies them to the
// device. Without a device both do nothing.
func (o *Optimizer) Fetch() error {
	if o.away == nil {
		return nil
	}
	return o.away.dev.Download(o.away.tensors...)
}

// Store is Fetch the other way round.
func (o *Optimizer) Store() error {
	if o.away == nil {
		return nil
	}
	return o.away.dev.Upload(o.away.tensors...)
}

// Err is the first failure of the device; nil without one.
func (o *Optimizer) Err() error {
	if o.away == nil {
		return nil
	}
	return o.away.err
}

// squares is the sum over all gradients as they are in memory. A device that failed gives NaN.
func (a *away) squares() float64 {
	sum, err := a.updater.SquareSum()
	if err != nil {
		a.fail(err)
		return math.NaN()
	}
	return sum
}

func (a *away) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// stepAway counts as Step does, and enqueues the update.
func (o *Optimizer) stepAway(lr float64) {
	for i := range o.params {
		o.away.steps[i] = o.params[i].advance(*o.count())
	}
	if err := o.away.updater.Step(lr, o.pending, o.away.steps); err != nil {
		o.away.fail(err)
	}
	if d := o.cfg.EMADecay; d > 0 {
		if err := o.away.updater.Average(d, *o.count() == 1); err != nil {
			o.away.fail(err)
		}
	}
	o.pending = 1
}
