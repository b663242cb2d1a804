package train

import (
	"context"
	"fmt"
)

// divergence counts the steps in a row whose loss or gradients are not finite,
// and ends a run that does nothing else. PyTorch would go on: a NaN that was
// applied to a weight stays there, and nothing that follows is of use.
//
// The loss is looked at in every step, for nothing: it is reduced over ranks
// anyway. Gradients are where a precision plugin asks for it, and while the loss
// is finite in every look-th step, because that reads them once more.
type divergence struct {
	limit int // steps in a row that end the run (train.max_skips); 0: none do
	row   int // steps in a row so far
	onset Diverged
}

// look is how many steps may pass before gradients are looked at.
const look = 50

// due reports whether gradients are to be looked at in a step, counted from 1.
func (d *divergence) due(step int) bool {
	return d.limit > 0 && (d.row > 0 || step%min(look, d.limit) == 0)
}

// step records one step, and returns a *Diverged if there were too many non-finite
// ones. found describes a step that is not finite, and is called for the first in a
// row.
func (d *divergence) step(finite bool, found func() Diverged) error {
	if finite {
		d.row = 0
		return nil
	}
	if d.row++; d.row == 1 {
		d.onset = found()
	}
	if d.limit == 0 || d.row < d.limit {
		return nil
	}
	end := d.onset
	end.Steps = d.row
	return &end
}

// Diverged ends a run whose loss or gradients are not finite, or whose weights have
// none at its end. Going on does not help, nor does a restart.
type Diverged struct {
	Step      int     // the first of the steps in a row, from 1
	Steps     int     // in a row
	Loss      float64 // of that step, over ranks
	LR        float64 // of that step
	Parameter string  // the first whose value or gradient was not finite there; "": none
	What      string  // of the parameter: "weight" or "gradient"
}

func (e *Diverged) Error() string {
	first := "every gradient was finite on this rank"
	if e.Parameter != "" {
		first = fmt.Sprintf("the first %s that was not finite is that of %s", e.What, e.Parameter)
	}
	return fmt.Sprintf("diverged at step %d: loss or gradients were not finite in %d steps in a row, the loss was %g and the learning rate %g there, and %s; fix: lower optimizer.lr, clip with train.max_norm, or raise train.max_skips",
		e.Step, e.Steps, e.Loss, e.LR, first)
}

// checkGradients decides with all ranks whether the averages of a step are applied:
// skip says that they overflowed, and the precision plugin lowers the loss scale.
// Otherwise they are multiplied by unscale first. A run that does nothing else ends with *Diverged.
func (t *Trainer) checkGradients(ctx context.Context, in inputs, lr float64) (skip bool, unscale float64, err error) {
	u, overflow := &t.updater, false
	if u.scaler.dynamic {
		if overflow, err = t.agreement.anyOverflow(ctx, u.optimizer); err != nil {
			return false, 0, err
		}
	}
	if skip, unscale, err = u.scaler.next(overflow); err != nil {
		return false, 0, err
	}
	return skip, unscale, t.watch(t.agreement.loss(in.active), lr, skip)
}

// watch tells the divergence of a step before its gradients are applied, or
// after they were found not to be: skipped.
func (t *Trainer) watch(loss, lr float64, skipped bool) error {
	d := &t.updater.diverged
	finite := !skipped && isFinite(loss)
	if finite && !t.policy.Dynamic && d.due(t.pos.Step+1) {
		finite = t.updater.optimizer.GradsFinite()
	}
	return d.step(finite, func() Diverged {
		d := Diverged{Step: t.pos.Step + 1, Loss: loss, LR: lr}
		d.What, d.Parameter = t.firstNonFinite()
		return d
	})
}

// firstNonFinite names the first parameter whose value, or else whose gradient,
// is not finite.
func (t *Trainer) firstNonFinite() (what, name string) {
	if t.device.download() != nil || t.device.downloadGradients() != nil {
		return "", "" // the device is lost, which the step that is under way finds out
	}
	if name := t.model.firstNonFinite(); name != "" {
		return "weight", name
	}
	if name := t.model.firstNonFiniteGradient(); name != "" {
		return "gradient", name
	}
	return "", ""
}

// endsFinite refuses to call a run good that ends with weights that are not
// finite, also where too few steps were left to count.
func (t *Trainer) endsFinite() error {
	d := &t.updater.diverged
	if d.limit == 0 {
		return nil
	}
	if err := t.device.download(); err != nil {
		return err
	}
	first := t.model.firstNonFinite()
	if first == "" {
		return nil
	}
	if d.row == 0 { // no loss has shown it
		d.onset = Diverged{Step: t.pos.Step, Loss: t.report.stats.lossMean, LR: t.updater.schedule.LR(max(0, t.pos.Applied-1)), What: "weight", Parameter: first}
	}
	end := d.onset
	end.Steps = max(1, d.row)
	return &end
}
