package train

import (
	"context"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/recovery"
)

func (t *Trainer) evalBatch() int { return t.Settings.Train.evalBatch(t.outline.Batch) }

func (c Config) evalBatch(training int) int {
	if c.EvalBatch > 0 {
		return c.EvalBatch
	}
	return training
}

func (t *Trainer) evalIndices() []int64 {
	return data.EvalShard(t.spec.TestSamples, t.World.Size, t.World.Rank)
}

// evaluate runs the test split with rank 0's batch statistics. Every sample
// is on one rank, and sums, not means, are reduced, so the result does not
// depend on the number of ranks.
func (t *Trainer) evaluate(ctx context.Context) (err error) {
	if t.spec.TestSamples == 0 {
		return nil
	}
	begin := time.Now()
	t.Events.Emit(&event.PhaseChanged{Phase: "eval"})
	if err := t.settleBuffers(ctx); err != nil {
		return err
	}
	mark := t.trace.Now()
	if t.evalSums, err = t.evalShard(); err != nil {
		return err
	}
	t.trace.Since(timeline.Compute, "evaluation", -1, mark)
	if err := t.recovery.Do(ctx, recovery.Stage{Name: "totals", Result: t.evalSums[:]}, t.total); err != nil {
		return fmt.Errorf("evaluation after step %d: %w", t.pos.Step, err)
	}
	sums := t.evalSums
	e := event.EvalDone{
		Step: t.pos.Step, Epoch: t.pos.lastEpoch(), Samples: int(sums[sumRows]),
		Loss: sums[sumLoss] / sums[sumRows], Accuracy: -1, TookMS: ms(time.Since(begin)),
	}
	t.evaluated = true
	t.vals.set("eval.loss", e.Loss, t.pos.Step)
	if t.spec.Classes > 0 {
		e.Accuracy = sums[sumCorrect] / sums[sumRows]
		t.vals.set("eval.accuracy", e.Accuracy, t.pos.Step)
	}
	t.Events.Emit(&e)
	t.Events.Emit(&event.PhaseChanged{Phase: "train"})
	return nil
}

// evalShard adds up loss and hits over this rank's part of the test split.
func (t *Trainer) evalShard() (sums [sumCount]float64, err error) {
	loader := data.NewLoader(t.Dataset, LoaderSlots(t.Settings.Sampler), t.evalBatch(), t.Settings.Run.Seed)
	if err := t.feeder.Stop(); err != nil {
		return sums, err
	}
	t.feeder.Forget()
	if err := loader.Start(sdk.Test, 0, t.evalIndices()); err != nil {
		return sums, err
	}
	for range loader.Len() {
		b, err := loader.Next()
		if err != nil {
			return sums, fmt.Errorf("evaluation: %w", err)
		}
		res := t.programs.eval[b.Rows].Run(plan.Args{Input: b.Input, Target: b.Target, LossScale: 1, LossDivisor: 1, Rank: t.World.Rank})
		if res.Err != nil {
			return sums, fmt.Errorf("evaluation: %w", res.Err)
		}
		sums[sumLoss] += res.LossSum
		sums[sumCorrect] += float64(res.Correct)
		sums[sumRows] += float64(res.Counted)
	}
	return sums, nil
}

// settleBuffers gives all ranks the batch statistics that count, rank 0's
// unless it has run out of data, at a point where they are read: before an
// evaluation, a checkpoint, and at the end.
func (t *Trainer) settleBuffers(ctx context.Context) error {
	return t.recovery.Do(ctx, recovery.Stage{Name: stageBuffers}, func(context.Context) error { return t.shareBuffers() })
}

func (t *Trainer) shareBuffers() error {
	if t.World.Size == 1 {
		return nil
	}
	if t.World.Rank == t.join.authority {
		if err := t.device.downloadBuffers(); err != nil {
			return err
		}
		return t.group.Broadcast(t.memory.buffers, t.join.authority)
	}
	if err := t.group.Broadcast(t.memory.buffers, t.join.authority); err != nil {
		return err
	}
	return t.device.uploadBuffers()
}

// total adds up an evaluation over ranks.
func (t *Trainer) total(context.Context) error { return t.group.Scalars(sdk.Sum, t.evalSums[:]) }

// Evaluate runs one evaluation over the loaded weights and returns its result.
func (t *Trainer) Evaluate(ctx context.Context) (loss, accuracy float64, err error) {
	if err := t.evaluate(ctx); err != nil {
		return 0, 0, err
	}
	return t.vals.value("eval.loss"), t.vals.value("eval.accuracy"), nil
}
