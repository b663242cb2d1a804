package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Checkpoints hold the model in float32 (float64 for reference runs), also
// where it computes in a half type, so that they load anywhere.

// fileType is the type in which a tensor of the model is saved.
func fileType(d tensor.DType) tensor.DType {
	if half(d) {
		return tensor.F32
	}
	return d
}

// full is the model in the types of a checkpoint: its own tensors where they
// have that type, copies where not.
func (t *Trainer) full() []tensor.Tensor {
	ts := make([]tensor.Tensor, len(t.model))
	for i, m := range t.model {
		if ts[i] = m; half(m.DType) {
			ts[i] = tensor.New(fileType(m.DType), m.Shape...)
			convert(ts[i], m)
		}
	}
	return ts
}

// putFull makes full, once changed, the model and its master copies.
func (t *Trainer) putFull(full []tensor.Tensor) {
	for i, e := range t.graph.StateDict() {
		if half(t.model[i].DType) {
			convert(t.model[i], full[i])
		}
		if !e.Buffer && t.masters[e.Index].Data != nil {
			convert(t.masters[e.Index], full[i])
		}
	}
}

// named gives tensors in state-dict order their names.
func (t *Trainer) named(ts []tensor.Tensor) []tensor.Named {
	out := make([]tensor.Named, len(ts))
	for i, e := range t.graph.StateDict() {
		out[i] = tensor.Named{Name: e.Name, Tensor: ts[i]}
	}
	return out
}

// assign copies tensors with the model's names, with or without "module.",
// into the model, and into the master copies at full precision. Floating
// types are converted; what a file may leave out keeps its value. After an error
// the model may be changed in part.
func (t *Trainer) assign(src []tensor.Named) (notes []string, err error) {
	full := t.full()
	if notes, err = checkpoint.Fill(t.named(full), floatsAs(t.floatType(), src)); err != nil {
		return nil, err
	}
	t.putFull(full)
	return notes, nil
}

// CheckInit reads model.init as training does, and says whether its tensors are
// those of the model.
func CheckInit(ctx context.Context, fsys checkpoint.FS, g *graph.Graph, path string) error {
	snap, _, err := checkpoint.Load(ctx, fsys, path)
	if err != nil {
		return err
	}
	var to []tensor.Named
	for _, e := range g.StateDict() {
		to = append(to, tensor.Named{Name: e.Name, Tensor: tensor.New(e.Spec.DType, e.Spec.Shape...)})
	}
	if _, err := checkpoint.Fill(to, floatsAs(tensor.F32, snap.Model)); err != nil {
		return checkpoint.Unusable(path, err)
	}
	return nil
}

// floatType is the floating type of checkpoints of this run.
func (t *Trainer) floatType() tensor.DType {
	if t.Settings.Run.DType == "f64" {
		return tensor.F64
	}
	return tensor.F32
}

// floatsAs converts the floating tensors of a file to d, and leaves the others.
func floatsAs(d tensor.DType, src []tensor.Named) []tensor.Named {
	out := make([]tensor.Named, len(src))
	for i, s := range src {
		out[i] = s
		if s.DType.Float() && s.DType != d {
			out[i].Tensor = tensor.New(d, s.Shape...)
			convert(out[i].Tensor, s.Tensor)
		}
	}
	return out
}

func convert(dst, src tensor.Tensor) {
	if dst.DType == src.DType {
		copy(dst.Data, src.Data)
		return
	}
	kernel.Convert(dst.DType, dst.Data, src.DType, src.Data)
}

// liveMasters are the master copies that exist.
func (t *Trainer) liveMasters() (ts []tensor.Tensor) {
	for _, m := range t.masters {
		if m.Data != nil {
			ts = append(ts, m)
		}
	}
	return ts
}

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
	if err := errors.Join(t.download(), t.agree(ctx)); err != nil {
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
		Model: t.named(t.full()), Optimizer: t.optimizer.State(), Scaler: scaler,
		Sampler: checkpoint.Sampler{
			Seed: t.Settings.Sampler.SeedOr(t.Settings.Run.Seed), Epoch: t.pos.Epoch, Offset: t.pos.Offset, WorldSize: t.World.Size, Batch: t.batch,
			OrderHash: t.sampler.OrderHash(t.pos.Epoch), Shuffle: t.Settings.Sampler.Shuffle, DropLast: t.Settings.Sampler.DropLast,
		},
		Seed:    t.Settings.Run.Seed,
		Dataset: checkpoint.Dataset{Plugin: t.Settings.Dataset, Source: t.spec.Source, Fingerprint: t.spec.Fingerprint, Classes: t.spec.ClassNames},
		Plugins: t.usedPlugins(),
		Metrics: t.vals.of(t.pos.Step),
		Config:  t.Settings.Text, WorldSize: t.World.Size, Precision: t.policy.Name,
		Parameters: len(t.graph.Params()), CreatedBy: t.Build,
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
