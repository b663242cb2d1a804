package train

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/recovery"
	"github.com/trainctl/trainctl/core/train/report"
)

// saver decides when a checkpoint is due. All ranks decide the same.
type saver struct {
	every    checkpoint.Interval
	best     bestEval
	early    earlyStop
	requests func() int64 // Deps.SaveAsked
	served   int64        // of requests

	equalAt int // step after which ranks were found equal last; 0: never
}

// newSaver takes a table that was checked before.
func newSaver(cfg checkpoint.Config, requests func() int64) saver {
	every, err := checkpoint.ParseInterval(cfg.Every)
	if err != nil {
		panic("train: " + err.Error())
	}
	return saver{every: every, best: bestEval{cfg: cfg}, requests: requests}
}

// dueAt reports whether a checkpoint is due after a step, if before is the last step after which one
// could have been saved.
func (s *saver) dueAt(before, step int) bool {
	return s.every.Steps > 0 && step/s.every.Steps > before/s.every.Steps
}

// dueAfter reports whether a checkpoint is due after an epoch.
func (s *saver) dueAfter(epoch int) bool { return s.every.Epochs > 0 && epoch%s.every.Epochs == 0 }

// requested reports whether this rank was asked to save since the last serve.
func (s *saver) requested() bool { return s.requests != nil && s.requests() > s.served }

// serve counts the requests so far as served.
func (s *saver) serve() {
	if s.requests != nil {
		s.served = s.requests()
	}
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

// store writes a checkpoint from rank 0; in async mode it only starts the write. All ranks take part: batch
// statistics are rank 0's from here on, and states that differ between ranks are not saved. A save that was begun is
// completed, even if the run is asked to stop meanwhile. unsaved, on rank 0 alone, says why there is no checkpoint;
// with err this rank cannot go on.
func (t *Trainer) store(ctx context.Context) (unsaved, err error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.settleBuffers(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(t.device.Download(), t.averageState(), t.compareReplicas(ctx)); err != nil {
		return nil, err
	}
	compression, err := t.collectFeedback(ctx)
	if err != nil {
		return nil, err
	}
	state, err := t.optimizerState(ctx)
	if err != nil || t.World.Rank != 0 || t.Store == nil {
		return nil, err
	}
	t.enter("checkpoint")
	mark := t.trace.Now()
	snap, err := t.snapshot(ctx, state)
	if err == nil {
		snap.Compression = compression
		_, err = t.Store.Save(ctx, snap)
	}
	t.trace.Since(timeline.Checkpoint, "snapshot", -1, mark)
	t.enter("train")
	if err != nil {
		err = fmt.Errorf("saving a checkpoint after step %d: %w", t.pos.Step, err)
	}
	return err, nil
}

// collectFeedback collects the compression errors of all ranks on rank 0. All ranks call it; the
// others get nil.
func (t *Trainer) collectFeedback(ctx context.Context) ([]tensor.Named, error) {
	if !t.reducer.HasFeedback() {
		return nil, nil
	}
	f := &t.replication.Feedback
	err := t.recovery.Do(ctx, recovery.Stage{Name: stageFeedback}, func(context.Context) error { return f.Collect() })
	return f.Take(), err
}

// optimizerState returns the state of all parameters on rank 0, which collects it if each rank has
// a part. All ranks call it.
func (t *Trainer) optimizerState(ctx context.Context) ([]tensor.Named, error) {
	s := &t.replication.Shards
	if !s.Scattered(t.updater.Optimizer) {
		return append(t.updater.Optimizer.State(), t.replication.Averaging.Outer.State()...), nil
	}
	err := t.recovery.Do(ctx, recovery.Stage{Name: stageState}, func(context.Context) error { return s.Collect(t.updater.Optimizer) })
	return s.Take(), err
}

// snapshot collects everything that an exact resume needs, of what is on the host.
func (t *Trainer) snapshot(ctx context.Context, state []tensor.Named) (*checkpoint.Snapshot, error) {
	scaler, err := t.Precision.State(ctx)
	if err != nil {
		return nil, err
	}
	model := t.model.Named(t.model.Full())
	var average []tensor.Named
	if t.updater.Optimizer.HasAverage() {
		average = optim.Averages(model, state)
	}
	return &checkpoint.Snapshot{
		Step: t.pos.Step, Epoch: t.pos.Epoch, Applied: t.pos.Applied,
		Model: model, Optional: checkpoint.Optional{Average: average}, Aliases: t.model.Aliases(), Optimizer: state, Scaler: scaler, Watched: t.watched(),
		Sampler: checkpoint.Sampler{
			Seed: t.Settings.Sampler.SeedOr(t.Settings.Run.Seed), Epoch: t.pos.Epoch, Offset: t.pos.Offset / t.World.Size, WorldSize: t.World.Size, Batch: t.outline.Batch,
			Consumed: t.pos.Offset, StepBatch: t.outline.Division.Step, FirstBatch: t.pos.FirstBatch,
			OrderHash: t.outline.Sampler.OrderHash(t.pos.Epoch), Shuffle: t.Settings.Sampler.Shuffle, DropLast: t.Settings.Sampler.DropLast,
		},
		Seed:    t.Settings.Run.Seed,
		Dataset: checkpoint.Dataset{Plugin: t.Settings.Dataset, Source: t.spec.Source, Fingerprint: t.spec.Fingerprint, Classes: t.spec.ClassNames},
		Plugins: t.usedPlugins(),
		Metrics: t.report.Metrics.Of(t.pos.Step),
		Config:  t.Settings.Text, WorldSize: t.World.Size, Precision: t.policy.Name,
		Parameters: len(t.model.Graph.Params()), CreatedBy: t.Build,
	}, nil
}

// usedPlugins returns the plugins in the form of a manifest.
func (t *Trainer) usedPlugins() (out []checkpoint.Plugin) {
	if t.Plugins == nil {
		return nil
	}
	for _, p := range t.Plugins() {
		out = append(out, checkpoint.Plugin(p))
	}
	return out
}

// bestEval knows the best value that a checkpoint holds of the metric that
// keep_best names. Evaluations give all ranks the same values, so all agree on
// which weights have to be saved for it.
type bestEval struct {
	cfg   checkpoint.Config
	known *checkpoint.Best
}

// evaluated reports whether the weights that an evaluation has just measured are
// the best so far, and takes note of them.
func (b *bestEval) evaluated(m report.Metrics, step int) bool {
	v, ok := m[b.cfg.KeepBest]
	if !ok || !strings.HasPrefix(b.cfg.KeepBest, "eval.") || v.Step != step || !event.Number(m.Value("eval.loss")).Finite() || !b.cfg.Improves(v.Value, step, b.known) {
		return false
	}
	b.known = &checkpoint.Best{Metric: b.cfg.KeepBest, Value: v.Value, Step: step}
	return true
}
