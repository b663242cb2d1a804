package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// interval is when checkpoints are due. The table was checked before.
func (t *Trainer) interval() checkpoint.Interval {
	i, err := checkpoint.ParseInterval(t.Settings.Checkpoint.Every)
	if err != nil {
		panic("train: " + err.Error())
	}
	return i
}

func (t *Trainer) saveDueAt(step int) bool {
	n := t.interval().Steps
	return n > 0 && step%n == 0
}

func (t *Trainer) saveDueAfterEpoch() bool {
	n := t.interval().Epochs
	return n > 0 && t.pos.Epoch%n == 0
}

// save makes a checkpoint. A save that fails during the run is a warning,
// because the training is still good and older checkpoints are intact; the
// last one of a run fails the run.
func (t *Trainer) save(ctx context.Context) error {
	unsaved, err := t.store(ctx)
	if err != nil || unsaved == nil || t.atEnd() {
		return errors.Join(err, unsaved)
	}
	t.Events.Emit(&event.Warning{Source: "checkpoint", Message: unsaved.Error() + "; training continues"})
	return nil
}

// store writes a checkpoint from rank 0, and in async mode begins to. All ranks
// take part: batch statistics are rank 0's from here on, and states that differ
// between ranks are not saved. What was begun is completed, also when the run is
// asked to stop meanwhile. unsaved, on rank 0 alone, says why there is no checkpoint; with err this rank cannot go on.
func (t *Trainer) store(ctx context.Context) (unsaved, err error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.settleBuffers(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(t.device.download(), t.agree(ctx)); err != nil {
		return nil, err
	}
	carried, err := t.carryOver(ctx)
	if err != nil || t.World.Rank != 0 || t.Store == nil {
		return nil, err
	}
	t.Events.Emit(&event.PhaseChanged{Phase: "checkpoint"})
	mark := t.trace.Now()
	snap, err := t.snapshot(ctx)
	if err == nil {
		snap.Compression = carried
		_, err = t.Store.Save(ctx, snap)
	}
	t.trace.Since(timeline.Checkpoint, "snapshot", -1, mark)
	t.Events.Emit(&event.PhaseChanged{Phase: "train"})
	if err != nil {
		err = fmt.Errorf("saving a checkpoint after step %d: %w", t.pos.Step, err)
	}
	return err, nil
}

// snapshot collects everything that an exact resume needs, of what is on the host.
func (t *Trainer) snapshot(ctx context.Context) (*checkpoint.Snapshot, error) {
	scaler, err := t.Precision.State(ctx)
	if err != nil {
		return nil, err
	}
	return &checkpoint.Snapshot{
		Step: t.pos.Step, Epoch: t.pos.Epoch, Applied: t.pos.Applied,
		Model: t.model.named(t.model.full()), Optimizer: t.optimizer.State(), Scaler: scaler,
		Sampler: checkpoint.Sampler{
			Seed: t.Settings.Sampler.SeedOr(t.Settings.Run.Seed), Epoch: t.pos.Epoch, Offset: t.pos.Offset, WorldSize: t.World.Size, Batch: t.outline.Batch,
			OrderHash: t.outline.sampler.OrderHash(t.pos.Epoch), Shuffle: t.Settings.Sampler.Shuffle, DropLast: t.Settings.Sampler.DropLast,
		},
		Seed:    t.Settings.Run.Seed,
		Dataset: checkpoint.Dataset{Plugin: t.Settings.Dataset, Source: t.spec.Source, Fingerprint: t.spec.Fingerprint, Classes: t.spec.ClassNames},
		Plugins: t.usedPlugins(),
		Metrics: t.vals.of(t.pos.Step),
		Config:  t.Settings.Text, WorldSize: t.World.Size, Precision: t.policy.Name,
		Parameters: len(t.model.graph.Params()), CreatedBy: t.Build,
	}, nil
}

// usedPlugins are the plugins as a manifest has them.
func (t *Trainer) usedPlugins() (out []checkpoint.Plugin) {
	if t.Plugins == nil {
		return nil
	}
	for _, p := range t.Plugins() {
		out = append(out, checkpoint.Plugin(p))
	}
	return out
}
