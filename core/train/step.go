package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// step is one optimizer step: forward, loss and backward over one or more
// micro-batches, gradients averaged over ranks while backward runs, one
// decision of all ranks whether to apply them, and the update.
func (t *Trainer) step(ctx context.Context, n turn, begin time.Time) (stop bool, err error) {
	t.begin(n)
	t.trace.Step(t.pos.Step + 1)
	if err := t.recovery.Do(ctx, recovery.Stage{Name: "gradients", Result: t.sums[:], Changes: true}, t.gradients); err != nil {
		return false, err
	}
	if err := t.reducer.Settle(); err != nil {
		return false, fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.carried = nil // from here on no rank can have missed it
	t.end(n)
	m := t.m
	if t.sums[sumEnded] > 0 {
		if empty, err := t.ranOut(ctx, m.ended); err != nil || empty {
			return t.sums[sumStop] > 0, err
		}
	}
	lr := t.schedule.LR(t.pos.Applied)
	mark := t.trace.Now()
	norm, applied, err := t.update(ctx, lr)
	if err != nil {
		return false, err
	}
	t.trace.Since(timeline.Compute, "optimizer", -1, mark)
	t.pos.Step++
	t.pos.Offset += t.covered(m)
	t.stepDone(m, lr, norm, applied, time.Since(begin))
	return t.sums[sumStop] > 0, nil
}

// gradients makes the averages over ranks of a step: of its gradients, in their
// buckets, and, last of all, of what it reports.
func (t *Trainer) gradients(ctx context.Context) (err error) {
	if err := t.syncBuffers(); err != nil {
		return err
	}
	if t.device.err != nil {
		return t.device.err
	}
	if t.m, err = t.passes(); err != nil {
		return err
	}
	mark := t.trace.Now()
	if err := t.reducer.Flush(); err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	pending, err := t.group.StartScalars(sdk.Sum, t.report(ctx, t.m))
	if err != nil {
		return err
	}
	if err := t.reducer.Finish(); err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	if err := t.group.FinishScalars(pending, t.sums[:]); err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	t.trace.Since(timeline.Compute, "wait", -1, mark)
	return nil
}

// measures are what the passes of one step add up on this rank.
type measures struct {
	loss    float64 // mean over the step's samples
	correct int
	counted int // rows with a target
	rows    int
	data    time.Duration // waited for batches
	ended   bool          // the data set ended before a batch that was expected
}

// passes runs forward and backward over the step's micro-batches. Only the
// last one communicates; the others add up in the buckets (DDP's no_sync).
//
// A rank without batches of its own shadows the others' passes.
func (t *Trainer) passes() (m measures, err error) {
	total, last := t.stepRows(t.turn.mine), t.turn.passes-1
	for i := range t.turn.passes {
		batch, err := t.take(i)
		if errors.Is(err, data.ErrEnd) {
			m.ended = m.ended || i < t.turn.mine
			err = t.shadow(m.rows, total, i == last)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return m, fmt.Errorf("samples from %d on of epoch %d: %w", t.pos.Offset+m.rows, t.pos.Epoch, err)
		}
		t.reducer.Begin(i == last)
		t.first = i == 0
		share := float64(batch.Rows) / float64(total)
		args := plan.Args{
			Input: batch.Input, Target: batch.Target,
			Accumulate: i > 0, LossScale: t.scale, LossDivisor: t.lossDivisor(share),
			Seed: t.Settings.Run.Seed, Step: uint64(t.pos.Step)*uint64(t.Settings.Train.AccumulateSteps) + uint64(i), Rank: t.World.Rank,
			OnGrad: t.onGrad, OnUnused: t.onUnused, OnLoss: t.onLoss, OnEnqueued: t.onEnqueued, Exchange: t.exchange,
		}
		res := t.trainProgram(batch.Rows).Run(args)
		if res.Err != nil {
			return m, fmt.Errorf("step %d, samples from %d on of epoch %d: %w", t.pos.Step+1, t.pos.Offset+m.rows, t.pos.Epoch, res.Err)
		}
		t.trace.Since(timeline.Compute, "backward", -1, t.begun)
		m.loss += res.Loss * share
		m.correct += res.Correct
		m.counted += res.Counted
		m.rows += batch.Rows
	}
	if m.rows > 0 {
		m.loss *= float64(total) / float64(m.rows)
	}
	m.data, t.waited = t.waited, 0
	return m, nil
}

// unused gives a parameter that takes no part in a pass zero as its gradient,
// unless passes before have left one.
func (t *Trainer) unused(param int) {
	if t.first {
		t.device.clear(t.model.grads[param])
	}
	t.reducer.Unused(param)
}

// covered is how far a step brings every rank in its part of the epoch. Where
// some may have run out it is the same on all of them.
func (t *Trainer) covered(m measures) int {
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return m.rows
	}
	return t.turn.passes * t.batch
}

// lossDivisor makes accumulated micro-batches equal one big batch: each
// counts by its share of the samples. Without accumulate_mean they add up.
func (t *Trainer) lossDivisor(share float64) float64 {
	if !t.Settings.Train.AccumulateMean {
		return 1
	}
	return 1 / share
}

// stepRows is the number of samples in the next micro batches of this rank.
func (t *Trainer) stepRows(micro int) int {
	n := 0
	for i := range micro {
		n += t.loader.Rows(t.taken + i)
	}
	t.taken += micro
	return n
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
func (t *Trainer) update(ctx context.Context, lr float64) (norm float64, applied bool, err error) {
	skip, unscale, err := t.precision(ctx)
	if err != nil {
		return 0, false, err
	}
	if err := t.watch(lr, skip); err != nil || skip {
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
