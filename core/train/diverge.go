package train

import (
	"context"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/update"
)

// checkGradients decides with all ranks whether to apply the averages of a step: skip means that
// they overflowed and the precision plugin lowers the loss scale; otherwise the averages are first
// multiplied by unscale. If too many steps in a row are skipped, the error is *Diverged.
func (t *Trainer) checkGradients(ctx context.Context, in passes.Inputs, lr float64) (skip bool, unscale float64, err error) {
	u, overflow := &t.updater, false
	if u.Scaler.Dynamic {
		if overflow, err = t.agreement.AnyOverflow(ctx, u.Optimizer); err != nil {
			return false, 0, err
		}
	}
	if skip, unscale, err = u.Scaler.Next(overflow); err != nil {
		return false, 0, err
	}
	return skip, unscale, t.watch(ctx, t.agreement.Loss(in.Active), lr, skip)
}

// watch checks a step for divergence before its gradients are applied, or after the decision to
// skip it.
func (t *Trainer) watch(ctx context.Context, loss, lr float64, skipped bool) error {
	d := &t.updater.Diverged
	finite := !skipped && event.Number(loss).Finite()
	if finite && !t.policy.Dynamic && d.Due(t.pos.Step+1) {
		if !t.replication.Shards.Divided() {
			finite = t.updater.Optimizer.GradsFinite()
		} else if overflow, err := t.agreement.AnyOverflow(ctx, t.updater.Optimizer); err != nil {
			return err
		} else {
			finite = !overflow
		}
	}
	return d.Step(finite, func() update.Diverged {
		d := update.Diverged{Step: t.pos.Step + 1, Loss: loss, LR: lr}
		d.What, d.Parameter = t.firstNonFinite()
		return d
	})
}

// firstNonFinite names the first parameter whose value, or else whose gradient,
// is not finite.
func (t *Trainer) firstNonFinite() (what, name string) {
	if t.device.Download() != nil || t.device.DownloadGradients() != nil {
		return "", "" // the device is lost, and the current step fails anyway
	}
	if name := t.model.FirstNonFinite(); name != "" {
		return "weight", name
	}
	if name := t.model.FirstNonFiniteGradient(); name != "" {
		return "gradient", name
	}
	return "", ""
}

// endsFinite returns an error if the weights at the end of a run are not finite, even if
// too few steps were left to reach the limit.
func (t *Trainer) endsFinite() error {
	d := &t.updater.Diverged
	if d.Limit == 0 {
		return nil
	}
	if err := t.device.Download(); err != nil {
		return err
	}
	first := t.model.FirstNonFinite()
	if first == "" {
		return nil
	}
	if d.Row == 0 { // no loss has revealed it
		d.Onset = update.Diverged{Step: t.pos.Step, Loss: t.report.Stats.LossMean, LR: t.updater.Schedule.LR(max(0, t.pos.Applied-1)), What: "weight", Parameter: first}
	}
	end := d.Onset
	end.Steps = max(1, d.Row)
	return &end
}
