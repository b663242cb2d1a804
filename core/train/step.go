package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/report"
)

// step is one optimizer step: forward, loss and backward over one or more
// micro-batches, gradients averaged over ranks while backward runs, one
// decision of all ranks whether to apply them, and the update. stop says that a
// rank was asked to end the run.
func (t *Trainer) step(ctx context.Context, in passes.Inputs, begin time.Time) (stop bool, err error) {
	t.trace.Step(t.pos.Step + 1)
	if t.BeforeStep != nil {
		if err := t.BeforeStep(t.pos.Step + 1); err != nil {
			return false, err
		}
	}
	t.join.begin(in, t.reducer)
	m, in, err := t.forwardBackward(ctx, in)
	if err != nil {
		return false, err
	}
	t.join.end(in)
	if t.agreement.Ended() {
		if empty, err := t.outOfData(ctx, m.Ended); err != nil || empty {
			return t.agreement.Stop(), err
		}
	}

	mark, lr := t.trace.Now(), t.updater.LR(t.pos)
	skip, unscale, err := t.checkGradients(ctx, in, lr)
	if err != nil {
		return false, err
	}
	norm := math.NaN()
	if !skip {
		t.updater.Momentum(t.pos)
		if norm, err = t.updater.Apply(lr, unscale, t.reducer); err != nil {
			return false, err
		}
	}
	t.trace.Since(timeline.Compute, "optimizer", -1, mark)
	if err := t.publish(ctx, in, skip); err != nil {
		return false, err
	}

	t.pos.Advance(t.samples(in), !skip)
	took, exposed := time.Since(begin), t.group.Exposed()
	t.shares.measure(t.pos.Step, took-exposed-m.Idle, m.Rows)
	t.report.Step(report.Step{
		Pos: t.pos, Own: m, Totals: &t.agreement.Totals, Active: in.Active, LR: lr, Norm: norm, Skipped: skip,
		Scale: t.updater.Scaler.Scale, Took: took, Exposed: exposed,
	})
	return t.agreement.Stop(), t.deliver(ctx)
}

// forwardBackward runs the passes of a step, and averages its gradients and the ranks' measures. It
// is repeated if the process group breaks meanwhile; if the new group has other ranks, with new
// inputs, which it returns.
func (t *Trainer) forwardBackward(ctx context.Context, in passes.Inputs) (m passes.Measures, _ passes.Inputs, err error) {
	err = t.recovery.Do(ctx, t.agreement.Gradients(), func(ctx context.Context) (err error) {
		if t.shares.changed {
			if in, err = t.restart(ctx); err != nil {
				return err
			}
		}
		if err = t.syncBuffers(); err != nil {
			return err
		}
		if m, err = t.passes.Run(in, t.pos, t.updater.Scaler.Scale); err != nil {
			return err
		}
		return t.average(ctx, in, m)
	})
	if err != nil {
		return m, in, err
	}
	t.replication.Release()
	if err := t.reducer.Settle(); err != nil {
		return m, in, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	return m, in, nil
}

// average waits until the gradients, in their buckets, and last of all the totals
// of the step are those of all ranks.
func (t *Trainer) average(ctx context.Context, in passes.Inputs, own passes.Measures) error {
	mark := t.trace.Now()
	err := t.reducer.Flush()
	if err == nil && t.passes.Local {
		var alone bool
		if alone, err = t.alone(in, own); alone || err != nil {
			return err
		}
	}
	if err == nil {
		err = t.agreement.Start(own, t.requests(ctx, own))
	}
	if err == nil {
		err = t.reducer.Finish()
	}
	if err == nil {
		err = t.agreement.Finish()
	}
	if err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.trace.Since(timeline.Compute, "wait", -1, mark)
	return nil
}
