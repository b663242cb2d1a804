package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// The stages that end with a broadcast.
const (
	stageWeights  = "weights"  // the model, once at the beginning
	stageBuffers  = "buffers"  // batch statistics
	stageShards   = "shards"   // the weights that each rank has updated
	stageState    = "state"    // the optimizer's state of all ranks, for a checkpoint
	stageFeedback = "feedback" // compression errors of all ranks, for a checkpoint
)

// settleBuffers gives all ranks the batch statistics that count, rank 0's
// unless it has run out of data, at a point where they are read: before an
// evaluation, a checkpoint, and at the end.
func (t *Trainer) settleBuffers(ctx context.Context) error {
	return t.recovery.Do(ctx, recovery.Stage{Name: stageBuffers}, func(context.Context) error {
		return t.replication.Buffers(t.join.authority)
	})
}

// syncBuffers gives every rank rank 0's batch statistics before the forward
// pass, once per optimizer step, as DDP's broadcast_buffers does; with join
// those of the highest rank that has data, as DDP does then.
func (t *Trainer) syncBuffers() error {
	if !t.Settings.DDP.BroadcastBuffers || t.passes.Local {
		return nil
	}
	return t.replication.Buffers(t.join.authority)
}

// publish gives all ranks the weights that each has updated, or at the end of a round their average,
// unless all ranks update all or none was updated.
func (t *Trainer) publish(ctx context.Context, in passes.Inputs, skipped bool) error {
	if t.passes.Local {
		return t.synchronise(in)
	}
	s := &t.replication.Shards
	if skipped || !s.Divided() {
		return nil
	}
	return t.recovery.Do(ctx, recovery.Stage{Name: stageShards}, func(context.Context) error { return s.Publish() })
}

// runState is the run as recovery sees it.
type runState struct{ t *Trainer }

// Step is the current step.
func (r runState) Step() int { return r.t.pos.Step + 1 }

// Save copies what the passes of a step change besides gradients: the weights change only after the
// passes.
func (r runState) Save() {
	r.t.replication.Save()
	r.t.reducer.Save()
}

// Rollback goes back to Save, and to the step's first batch.
func (r runState) Rollback() error {
	t := r.t
	if err := errors.Join(t.replication.Rollback(), t.reducer.Rollback()); err != nil {
		return err
	}
	return t.feeder.Start(t.pos.Epoch, t.pos.Offset)
}

// Regroup makes this a run of fewer or more ranks.
func (r runState) Regroup(p recovery.Place) error { return r.t.regroup(p) }

// Share gives the state to the ranks that have joined.
func (r runState) Share(ctx context.Context) error { return r.t.share(ctx) }

// Rebroadcast repeats the broadcast of a stage.
func (r runState) Rebroadcast(stage string) error {
	t := r.t
	switch stage {
	case stageWeights:
		return t.replication.Weights(t.updater.Optimizer)
	case stageBuffers:
		return t.replication.Buffers(t.join.authority)
	case stageShards:
		return t.replication.Shards.Publish()
	case stageState:
		return t.replication.Shards.Collect(t.updater.Optimizer)
	case stageFeedback:
		return t.replication.Feedback.Collect()
	}
	panic("train: no broadcast " + stage)
}
