package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/train/passes"
)

// regroup makes this the run of a rank in a group of size ranks, before the backends form
// it. Memory, weights and the optimizer's state stay. The step under way is not touched:
// if it must be repeated, restart gives it the inputs that it has with these ranks.
func (t *Trainer) regroup(rank, size int) error {
	if t.World.Rank == rank && t.World.Size == size {
		return nil
	}
	t.World.Rank, t.World.Size = rank, size
	t.World.LocalRank, t.World.LocalSize = rank, size
	t.recovery.Group.Open.LocalRank, t.recovery.Group.Open.LocalSize = rank, size
	if err := errors.Join(t.feeder.Stop(), t.outline.Regroup(t.Settings, t.spec, size, rank)); err != nil {
		return fmt.Errorf("going on with %d ranks: %w", size, err)
	}
	t.group.Rank, t.group.World = rank, size
	t.reducer.Divide(size)
	t.agreement.Regroup()
	t.join.rank, t.join.world = rank, size
	t.replication.Rank, t.replication.World = rank, size
	t.passes.Rank, t.passes.Accumulate, t.passes.Programs.World = rank, t.outline.Division.Accumulate, size
	t.feed()
	t.regrouped = true
	return t.rebind()
}

// rebind makes the programs for batches that this rank had not before.
func (t *Trainer) rebind() error {
	programs := &t.passes.Programs
	if t.Settings.Train.EvalEvery > 0 {
		if err := programs.BindEvaluation(len(t.evalIndices()), t.evalBatch()); err != nil {
			return err
		}
	}
	return programs.BindTraining(t.shapes())
}

// restart begins the rest of the epoch with the ranks that there are now, and returns the
// inputs of its first step. The schedule changes here and not in regroup, where a rank may
// still have to end a step that others have ended before.
func (t *Trainer) restart(ctx context.Context) (passes.Inputs, error) {
	t.regrouped = false
	if t.updater.StepBatch != t.outline.Division.Step {
		if err := t.updater.Plan(&t.Settings, t.outline); err != nil {
			return passes.Inputs{}, err
		}
		t.reschedule(&t.pos)
	}
	if err := errors.Join(t.feeder.Start(t.pos.Epoch, t.pos.Offset), t.rebind()); err != nil {
		return passes.Inputs{}, err
	}
	return t.nextInputs(ctx)
}
