package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// loadWeights gives all ranks the same model, optimizer state and position. Only rank
// 0 reads or initialises them; the others receive a broadcast, as in DDP's
// constructor. A failure of rank 0 is reported by every rank.
func (t *Trainer) loadWeights(ctx context.Context) error {
	var head resumeHead
	if t.World.Rank == 0 {
		if err := t.prepareWeights(ctx, &head); err != nil {
			head.Failure = err.Error()
			// Whoever stops this rank meanwhile wants to know why it failed.
			if _, gatherErr := t.Gather(ctx, "resume", head.encode()); gatherErr != nil && ctx.Err() == nil {
				return errors.Join(err, gatherErr)
			}
			return err
		}
	}
	if t.Store != nil {
		head.Best = t.Store.Best()
	}
	heads, err := t.Gather(ctx, "resume", head.encode())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(heads[0], &head); err != nil {
		return fmt.Errorf("rank 0's position: %w", err)
	}
	if head.Failure != "" {
		return ddp.NewPeerFailed(0, head.Failure)
	}
	return t.adopt(ctx, head)
}

// resumeHead is what rank 0 sends to the other ranks in addition to the tensors.
type resumeHead struct {
	Failure  string
	Position outline.Position
	Scaler   map[string]float64
	State    bool // optimizer state follows
	Feedback bool // and the errors of compression
	Best     *checkpoint.Best
	Watched  map[string]float64 // of a plateau and early stopping
}

func (h resumeHead) encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic("train: " + err.Error())
	}
	return b
}

// prepareWeights fills rank 0's tensors from a checkpoint, from model.init,
// or by drawing them.
func (t *Trainer) prepareWeights(ctx context.Context, head *resumeHead) error {
	if t.Resume != "" {
		snap, report, err := checkpoint.Load(ctx, t.FS, t.Resume)
		switch {
		case err == nil:
			if err := t.restore(snap, report, head); err != nil {
				return checkpoint.Unusable(report.Path, err)
			}
			return nil
		case !t.ResumeAuto || !errors.Is(err, checkpoint.ErrNone):
			return err
		}
	}
	if done, err := t.initialWeights(ctx); done || err != nil {
		return err
	}
	full := t.model.Full()
	if err := nn.Initialize(t.Settings.Model, t.model.Graph, t.Settings.Run.Seed, full); err != nil {
		return err
	}
	t.model.PutFull(full)
	return nil
}

// initialWeights fills the tensors from model.init. It reports false where the run starts without it.
func (t *Trainer) initialWeights(ctx context.Context) (done bool, err error) {
	c := t.Settings.Model
	if c.Init == "" {
		return false, nil
	}
	if c.InitFallback == nn.FallbackRandom && errors.Is(checkpoint.Find(t.FS, c.Init), fs.ErrNotExist) {
		t.report.Init = &event.ModelInit{Path: c.Init, Notice: fmt.Sprintf("there is no %s: training starts from random weights (model.init_fallback = %q), and is likely to end with a lower accuracy than from trained weights", c.Init, c.InitFallback)}
		t.Events.Emit(t.report.Init)
		return false, nil
	}
	snap, _, err := checkpoint.Load(ctx, t.FS, c.Init)
	if err != nil {
		return false, fmt.Errorf("model.init: %w", err)
	}
	in, notes, err := t.model.AssignInit(c, t.Settings.Run.Seed, snap.Model, t.floatType())
	if err != nil {
		return false, fmt.Errorf("model.init: %w", checkpoint.Unusable(c.Init, err))
	}
	t.Events.Emit(&event.CheckpointLoaded{Path: c.Init, Notes: notes})
	if len(in.Skipped)+len(in.New) > 0 || len(c.InitRename) > 0 {
		t.report.Init = &in
		t.Events.Emit(t.report.Init)
	}
	return true, nil
}

// floatType is the floating type of checkpoints of this run.
func (t *Trainer) floatType() tensor.DType {
	if t.Settings.Run.DType == "f64" {
		return tensor.F64
	}
	return tensor.F32
}

// restore loads a checkpoint on rank 0.
func (t *Trainer) restore(s *checkpoint.Snapshot, r checkpoint.Report, head *resumeHead) error {
	notes, err := t.model.Assign(s.Model, t.floatType())
	if err != nil {
		return err
	}
	lines := append(r.Notes, notes...)
	for _, skip := range r.Skipped {
		lines = append(lines, "skipped "+skip.String())
	}
	if s.Optimizer != nil && !t.EvalOnly {
		if err := t.checkSame(s); err != nil {
			return err
		}
		state, notes := t.replication.Averaging.Outer.Restore(s.Optimizer)
		lines = append(lines, notes...)
		if err := t.updater.Optimizer.Load(state); err != nil {
			return fmt.Errorf("%w; keep [optimizer] as it was, or start from its weights with model.init instead", err)
		}
		head.State = true
		if t.replication.Shards.Divided() {
			t.replication.Shards.Restored = state
		}
		head.Scaler, head.Watched = s.Scaler, s.Watched
		feedback := &t.replication.Feedback
		lines = append(lines, feedback.Restore(t.Settings.DDP.Compress, s.Compression, s.WorldSize)...)
		head.Feedback = feedback.Restored != nil
		head.Position = outline.Position{Step: s.Step, Applied: s.Applied, Epoch: s.Epoch, Offset: s.Sampler.Done(), FirstBatch: s.Sampler.FirstBatch}
		lines = append(lines, t.resized(s.Sampler, &head.Position)...)
		for k, v := range s.Metrics {
			t.report.Metrics.Set(k, v, s.Step)
		}
		t.report.Stats.LossMean = t.report.Metrics.Value("train.loss")
	}
	t.Events.Emit(&event.CheckpointLoaded{Step: s.Step, Path: r.Path, Notes: lines})
	return nil
}

// checkSame refuses to continue on other data or in another order, which
// would silently repeat some samples and leave out others.
func (t *Trainer) checkSame(s *checkpoint.Snapshot) error {
	if s.Dataset.Fingerprint != "" && s.Dataset.Fingerprint != t.spec.Fingerprint {
		return fmt.Errorf("it was trained on other data: %s (%s, %s), now %s (%s, %s); start from its weights with model.init instead",
			s.Dataset.Plugin, s.Dataset.Source, s.Dataset.Fingerprint, t.Settings.Dataset, t.spec.Source, t.spec.Fingerprint)
	}
	return t.sameOrder(s.Sampler, s.Epoch)
}

// sameOrder refuses an epoch that was begun in an order which this run would not
// have given to a job of the checkpoint's size.
func (t *Trainer) sameOrder(s checkpoint.Sampler, epoch int) error {
	if s.Offset == 0 {
		return nil
	}
	then, err := data.NewSampler(t.Settings.Sampler, t.Settings.Run.Seed, t.spec.TrainSamples, s.WorldSize, 0)
	if err == nil && then.OrderHash(epoch) == s.OrderHash {
		return nil
	}
	return fmt.Errorf("epoch %d is half done in another order of the samples (seed %d, shuffle = %v, drop_last = %v, now seed %d, shuffle = %v, drop_last = %v, pad = %q); fix: set run.seed and [sampler] as they were, resume from the end of an epoch, or start from its weights with model.init",
		epoch, s.Seed, s.Shuffle, s.DropLast, t.Settings.Sampler.SeedOr(t.Settings.Run.Seed), t.Settings.Sampler.Shuffle, t.Settings.Sampler.DropLast, t.Settings.Sampler.Pad)
}

// resized continues from a position in a job that may have had other ranks or batches. In a
// schedule that counts epochs, this epoch ends with its last step, whatever the size of its first
// steps was.
func (t *Trainer) resized(s checkpoint.Sampler, pos *outline.Position) (notes []string) {
	if s.WorldSize != t.World.Size && pos.Offset > 0 {
		notes = append(notes, fmt.Sprintf("continuing epoch %d, begun with %d ranks, with %d: %d samples are done and will not be read again",
			s.Epoch, s.WorldSize, t.World.Size, pos.Offset))
	}
	now := t.outline.Division.Step
	if s.StepBatch > 0 && s.StepBatch != now {
		t.reschedule(pos)
	}
	if f := t.Settings.Schedule.BatchFactor(pos.FirstBatch, now); f != 1 {
		notes = append(notes, fmt.Sprintf("the learning rate is multiplied by %.4g: a step has %d samples, and had %d when the run began (lr_scheduler.batch_scaling = %q)",
			f, now, pos.FirstBatch, t.Settings.Schedule.BatchScaling))
	}
	return notes
}

// reschedule moves a position to where it is in a schedule of steps of another size.
func (t *Trainer) reschedule(pos *outline.Position) {
	if t.Settings.Schedule.FollowsEpochs() {
		step := t.outline.Division.Step
		left := t.outline.Sampler.End(pos.Offset, step) - pos.Offset
		pos.Applied = (pos.Epoch+1)*t.outline.StepsPerEpoch - (left+step-1)/step
	}
}

// adopt sets rank 0's state on every rank.
func (t *Trainer) adopt(ctx context.Context, head resumeHead) error {
	t.replication.WithState, t.replication.WithFeedback = head.State, head.Feedback
	if err := t.recovery.Do(ctx, recovery.Stage{Name: stageWeights}, func(context.Context) error { return t.replication.Weights(t.updater.Optimizer) }); err != nil {
		return err
	}
	return t.assume(ctx, head)
}

// assume sets this rank's position to rank 0's.
func (t *Trainer) assume(ctx context.Context, head resumeHead) error {
	t.pos = head.Position
	if t.pos.FirstBatch == 0 {
		t.pos.FirstBatch = t.outline.Division.Step
	}
	t.saver.best.known = head.Best
	t.rewatch(head.Watched)
	t.reducer.Resume(t.pos.Step)
	t.replication.Averaging.Begin(t.pos.Step)
	if err := t.updater.Scaler.Load(ctx, head.Scaler); err != nil {
		return fmt.Errorf("loss scaler: %w", err)
	}
	// The rest of an epoch that was begun with other batches or ranks may end
	// with a batch of a size that no whole epoch has.
	return t.passes.Programs.BindTraining(t.shapes())
}
