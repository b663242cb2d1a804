package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
)

// step is one optimizer step: forward, loss and backward over one or more
// micro-batches, gradients averaged over ranks while backward runs, one
// decision of all ranks whether to apply them, and the update. stop says that a
// rank was asked to end the run.
func (t *Trainer) step(ctx context.Context, in inputs, begin time.Time) (stop bool, err error) {
	t.trace.Step(t.pos.Step + 1)
	t.join.begin(in, t.reducer)
	m, err := t.forwardBackward(ctx, in)
	if err != nil {
		return false, err
	}
	t.join.end(in)
	if t.agreement.ended() {
		if empty, err := t.outOfData(ctx, m.ended); err != nil || empty {
			return t.agreement.stop(), err
		}
	}

	mark, lr := t.trace.Now(), t.updater.schedule.LR(t.pos.Applied)
	skip, unscale, err := t.checkGradients(ctx, in, lr)
	if err != nil {
		return false, err
	}
	norm := math.NaN()
	if !skip {
		if norm, err = t.updater.apply(lr, unscale, t.reducer); err != nil {
			return false, err
		}
	}
	t.trace.Since(timeline.Compute, "optimizer", -1, mark)

	t.pos.advance(t.samples(in, m), !skip)
	t.report.step(stepResult{
		pos: t.pos, own: m, totals: &t.agreement.totals, active: in.active, lr: lr, norm: norm, skipped: skip,
		scale: t.updater.scaler.scale, took: time.Since(begin), exposed: t.group.Exposed(),
	})
	return t.agreement.stop(), nil
}

// forwardBackward runs the passes of a step, and averages its gradients and what
// ranks report of it. It is repeated if the process group breaks meanwhile.
func (t *Trainer) forwardBackward(ctx context.Context, in inputs) (m measures, err error) {
	err = t.recovery.Do(ctx, t.agreement.gradients(), func(ctx context.Context) (err error) {
		if err = t.syncBuffers(); err != nil {
			return err
		}
		if m, err = t.passes.run(in, t.pos, t.updater.scaler.scale); err != nil {
			return err
		}
		return t.average(ctx, m)
	})
	if err != nil {
		return m, err
	}
	t.replication.release()
	if err := t.reducer.Settle(); err != nil {
		return m, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	return m, nil
}

// average waits until the gradients, in their buckets, and last of all the totals
// of the step are those of all ranks.
func (t *Trainer) average(ctx context.Context, own measures) error {
	mark := t.trace.Now()
	err := t.reducer.Flush()
	if err == nil {
		err = t.agreement.start(own, t.requests(ctx, own))
	}
	if err == nil {
		err = t.reducer.Finish()
	}
	if err == nil {
		err = t.agreement.finish()
	}
	if err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.trace.Since(timeline.Compute, "wait", -1, mark)
	return nil
}
