package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// regroup makes this the run of a rank in another group, before the backends form
// it. Memory, weights and the optimizer's state stay. The step under way is not touched:
// if it must be repeated, restart gives it the inputs that it has with these ranks.
func (t *Trainer) regroup(p recovery.Place) error {
	if w := &t.World; w.Rank == p.Rank && w.Size == p.Size && w.LocalSize == p.LocalSize && !t.Joins {
		return nil
	}
	rank, size := p.Rank, p.Size
	leads := rank == 0 && t.World.Rank != 0
	t.World.Rank, t.World.Size, t.World.LocalRank, t.World.LocalSize = p.Rank, p.Size, p.LocalRank, p.LocalSize
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
	t.shares.changed = true
	if leads {
		if err := t.lead(); err != nil {
			return err
		}
	}
	return t.rebind()
}

// lead makes this rank write what rank 0 writes: the rank that did is lost.
func (t *Trainer) lead() (err error) {
	if t.Lead == nil {
		return nil
	}
	t.Store, t.Plugins, err = t.Lead()
	if err != nil {
		return fmt.Errorf("going on as rank 0: %w", err)
	}
	return nil
}

// rebind makes the programs for batch sizes that are new to this rank.
func (t *Trainer) rebind() error {
	programs := &t.passes.Programs
	if t.Settings.Train.EvalEvery > 0 {
		if err := programs.BindEvaluation(len(t.evalIndices()), t.evalBatch()); err != nil {
			return err
		}
	}
	return programs.BindTraining(t.shapes())
}

// restart begins the rest of the epoch with the current ranks, and returns the inputs of its first
// step. The schedule changes here and not in regroup, where a rank may still have to end a step
// that others have ended before.
func (t *Trainer) restart(ctx context.Context) (passes.Inputs, error) {
	t.shares.changed = false
	t.shares.begin(t.pos.Step, sharePeriod)
	if err := t.replan(); err != nil {
		return passes.Inputs{}, err
	}
	if err := errors.Join(t.feeder.Start(t.pos.Epoch, t.pos.Offset), t.rebind()); err != nil {
		return passes.Inputs{}, err
	}
	return t.nextInputs(ctx)
}

// replan adapts the schedule to the current number of steps.
func (t *Trainer) replan() error {
	if t.updater.StepBatch == t.outline.Division.Step {
		return nil
	}
	if err := t.updater.Plan(&t.Settings, t.outline); err != nil {
		return err
	}
	t.reschedule(&t.pos)
	return nil
}

// admit admits the ranks that wait to join an elastic job, between two steps, if some rank knew of
// them in the last one, and waits for some if there are too few ranks. stop says that there still
// are too few.
func (t *Trainer) admit(ctx context.Context) (stop bool, err error) {
	m := t.Members
	if m == nil {
		return false, nil
	}
	if err := m.StoreLost(); err != nil || !t.agreement.JoinAsked() && !m.Short() {
		return false, err
	}
	t.agreement.Served()
	if m.Short() {
		release := context.AfterFunc(ctx, func() { // a rank that is asked to stop has no use for others
			if err := m.Enough(context.WithoutCancel(ctx)); err != nil {
				t.Events.Emit(&event.Warning{Source: "elastic", Message: fmt.Sprintf("the ranks go on waiting for others: %v", err)})
			}
		})
		defer release()
		t.Events.Emit(&event.Warning{Source: "elastic", Message: fmt.Sprintf("the job needs more ranks than %d, and waits for others (launch.wait_for_nodes)", m.Size())})
	}
	if err := t.recovery.Admit(ctx); err != nil {
		return false, err
	}
	return m.Short(), nil
}

// published is what a rank must know to become ready for a run that has begun.
type published struct {
	World  int        // ranks of the first group, on which all base their plans
	CapsMB [2]float64 // of buckets
}

const publishedKey = "plan"

// publish keeps for ranks that join what the first ranks have decided together.
func (t *Trainer) publishPlan(ctx context.Context) error {
	if t.Members == nil || t.World.Rank != 0 {
		return nil
	}
	b, err := json.Marshal(published{World: t.World.Size, CapsMB: t.outline.CapsMB})
	if err != nil {
		return err
	}
	return t.Members.Publish(ctx, publishedKey, b)
}

// prepareToJoin does what prepare does, in a run that has begun: it makes this rank ready without
// the others, and then waits for them.
func (t *Trainer) prepareToJoin(ctx context.Context) error {
	t.enter("plan")
	b, err := t.Members.Published(ctx, publishedKey)
	if err != nil {
		return err
	}
	var p published
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	t.World.Rank, t.World.Size = min(1, p.World-1), p.World
	if c := &t.Settings.DDP; c.BucketCapMB.IsAuto() {
		c.FirstBucketMB, c.BucketCapMB = p.CapsMB[0], ddp.Cap(p.CapsMB[1])
	}
	if err := t.makePlan(); err != nil {
		return err
	}
	t.record()
	t.planMade()
	return nil
}

// enterRun waits to be admitted.
func (t *Trainer) enterRun(ctx context.Context) error {
	t.enter("rendezvous")
	begin := time.Now()
	err := t.recovery.Join(ctx)
	if err == nil {
		t.Joins = false
		t.Events.Emit(&event.Elastic{Ranks: t.World.Size, Before: t.World.Size, Step: t.pos.Step + 1, Cause: "this rank has joined", TookMS: event.Millis(time.Since(begin)), Places: t.Members.Places()})
	}
	return err
}

// sharedState is what the other ranks give to those that join, in addition to the tensors.
type sharedState struct {
	Replica []byte
	Head    resumeHead
	Skipped int // steps in a row that were not finite
	History recovery.History
}

// share gives the run's state to ranks that have joined: that of rank 0. All are between two
// steps, so that the schedule may change.
func (t *Trainer) share(ctx context.Context) error {
	if err := t.replan(); err != nil {
		return err
	}
	var mine []byte
	if t.World.Rank == 0 {
		scaler, err := t.Precision.State(ctx)
		if err != nil {
			return err
		}
		s := sharedState{
			Replica: t.replica().Encode(), Skipped: t.updater.Diverged.Row, History: t.recovery.Group.History(),
			Head: resumeHead{Position: t.pos, Scaler: scaler, State: true, Best: t.saver.best.known, Watched: t.watched()},
		}
		if mine, err = json.Marshal(s); err != nil {
			return err
		}
	}
	all, err := t.Gather(ctx, "state", mine)
	if err != nil {
		return err
	}
	var s sharedState
	if err := json.Unmarshal(all[0], &s); err != nil {
		return fmt.Errorf("rank 0's state: %w", err)
	}
	if !t.Joins {
		t.replication.WithState = true
		return t.replication.Weights(t.updater.Optimizer)
	}
	if err := ddp.VerifyReplicas([][]byte{s.Replica, t.replica().Encode()}, t.Settings.Run.AllowSharedDevice); err != nil {
		return err
	}
	t.replication.WithState = true
	if err := t.replication.Weights(t.updater.Optimizer); err != nil {
		return err
	}
	t.updater.Diverged.Row = s.Skipped
	t.recovery.Group.Assume(s.History)
	return t.assume(ctx, s.Head)
}
