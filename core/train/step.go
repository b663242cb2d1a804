package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// step is one optimizer step: forward, loss and backward over one or more
// micro-batches, gradients averaged over ranks while backward runs, one
// decision of all ranks whether to apply them, and the update.
func (t *Trainer) step(ctx context.Context, in inputs, begin time.Time) (stop bool, err error) {
	t.trace.Step(t.pos.Step + 1)
	t.join.begin(in, t.reducer)
	var m measures
	err = t.recovery.Do(ctx, recovery.Stage{Name: "gradients", Result: t.sums[:], Changes: true}, func(ctx context.Context) (err error) {
		m, err = t.gradients(ctx, in)
		return err
	})
	if err != nil {
		return false, err
	}
	if err := t.reducer.Settle(); err != nil {
		return false, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.carried = nil // from here on no rank can have missed it
	t.join.end(in)
	if t.sums[sumEnded] > 0 {
		if empty, err := t.ranOut(ctx, m.ended); err != nil || empty {
			return t.sums[sumStop] > 0, err
		}
	}
	lr := t.schedule.LR(t.pos.Applied)
	mark := t.trace.Now()
	norm, applied, err := t.update(ctx, in, lr)
	if err != nil {
		return false, err
	}
	t.trace.Since(timeline.Compute, "optimizer", -1, mark)
	t.pos.Step++
	t.pos.Offset += t.covered(in, m)
	t.stepDone(in, m, lr, norm, applied, time.Since(begin))
	return t.sums[sumStop] > 0, nil
}

// gradients makes the averages over ranks of a step: of its gradients, in their
// buckets, and, last of all, of what it reports.
func (t *Trainer) gradients(ctx context.Context, in inputs) (m measures, err error) {
	if err := t.syncBuffers(); err != nil {
		return m, err
	}
	if t.device.err != nil {
		return m, t.device.err
	}
	if m, err = t.passes.run(in, t.pos, t.scale); err != nil {
		return m, err
	}
	mark := t.trace.Now()
	if err := t.reducer.Flush(); err != nil {
		return m, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	pending, err := t.group.StartScalars(sdk.Sum, t.report(ctx, m))
	if err != nil {
		return m, err
	}
	if err := t.reducer.Finish(); err != nil {
		return m, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	if err := t.group.FinishScalars(pending, t.sums[:]); err != nil {
		return m, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.trace.Since(timeline.Compute, "wait", -1, mark)
	return m, nil
}

// covered is how far a step brings every rank in its part of the epoch. Where
// some may have run out it is the same on all of them.
func (t *Trainer) covered(in inputs, m measures) int {
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return m.rows
	}
	return in.passes * t.outline.Batch
}

// What ranks add up in every step. Reducing them takes one small message
// behind the last bucket.
const (
	sumLoss = iota
	sumCorrect
	sumCounted
	sumRows
	sumStop  // ranks that were asked to stop
	sumSave  // ranks that were asked to save
	sumEnded // ranks whose data ended, where that must not be
	sumCount
)

func (t *Trainer) report(ctx context.Context, m measures) []float64 {
	t.sums = [sumCount]float64{sumLoss: m.loss, sumCorrect: float64(m.correct), sumCounted: float64(m.counted), sumRows: float64(m.rows)}
	if ctx.Err() != nil {
		t.sums[sumStop] = 1
	}
	if t.SaveAsked != nil && t.SaveAsked() > t.saved {
		t.sums[sumSave] = 1
	}
	if m.ended && t.Settings.DDP.Uneven == ddp.UnevenError {
		t.sums[sumEnded] = 1
	}
	return t.sums[:]
}

// update decides with all ranks whether the gradients are finite, and applies
// them. Unscaling and clipping come after the reduce, so they are the same on
// all ranks (parity with GradScaler's order: unscale, clip, step, update).
func (t *Trainer) update(ctx context.Context, in inputs, lr float64) (norm float64, applied bool, err error) {
	skip, unscale, err := t.precision(ctx)
	if err != nil {
		return 0, false, err
	}
	if err := t.watch(t.sums[sumLoss]/float64(in.active), lr, skip); err != nil || skip {
		return math.NaN(), false, err
	}
	if unscale != 1 {
		t.optimizer.ScaleGrads(unscale)
	}
	for _, p := range t.optional {
		t.optimizer.Use(t.slots[p], t.reducer.Used(p))
	}
	if t.Settings.Train.MaxNorm > 0 {
		norm = t.optimizer.ClipNorm(t.Settings.Train.MaxNorm)
	}
	t.optimizer.Step(lr)
	t.pos.Applied++
	return norm, true, t.optimizer.Err()
}

// precision asks the precision plugin whether to skip a step, and says by what
// its gradients are to be multiplied.
func (t *Trainer) precision(ctx context.Context) (skip bool, unscale float64, err error) {
	if !t.policy.Dynamic {
		return false, 1 / t.scale, t.precisionFailed()
	}
	if err := t.recovery.Do(ctx, recovery.Stage{Name: "finite", Result: t.found[:]}, t.allFinite); err != nil {
		return false, 0, err
	}
	next, err := t.Precision.Update(context.Background(), t.found[0] > 0) // the step ends, also when the run is asked to
	if err != nil {
		return false, 0, err
	}
	unscale = 1 / t.scale
	t.scale = next.Scale
	return next.Skip, unscale, nil
}

// precisionFailed looks after a plugin with a fixed policy, which no step asks:
// without it the next checkpoint could not be written.
func (t *Trainer) precisionFailed() error {
	if p, ok := t.Precision.(interface{ Failed() error }); ok {
		return p.Failed()
	}
	return nil
}

// syncBuffers gives every rank rank 0's batch statistics before the forward
// pass, once per optimizer step, as DDP's broadcast_buffers does; with join
// those of the highest rank that has data, as DDP does then.
func (t *Trainer) syncBuffers() error {
	if !t.Settings.DDP.BroadcastBuffers {
		return nil
	}
	return t.shareBuffers()
}
