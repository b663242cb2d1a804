package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
)

// Stage is what all ranks do together, in the same order. When the process group breaks in it, all
// ranks form a new one, and those that have not completed the stage repeat it.
//
// Ranks can be in different stages at that moment, because a collective ends on one rank before it
// ends on another. A reduction cannot end before every rank has begun it, so a rank that is still
// in it lacks only its result, which the others keep until the next reduction. A broadcast can end
// on its root before others have begun it, so what the broadcasts since that reduction have sent
// is sent again.
type Stage struct {
	Name string

	// Result is what the stage ends with by a reduction. A stage without one ends
	// with a broadcast, which [Run].Rebroadcast repeats.
	Result []float64

	// Changes says that the stage changes what [Run].Save copies.
	Changes bool
}

// end is the name of the stage in which nothing is left to do.
const end = "end"

// Run is the run whose process group is replaced. Its methods are called on the
// goroutine of Do.
type Run interface {
	// Step is the step under way, from 1.
	Step() int
	// Save copies what a stage with Changes changes, and Rollback restores it.
	Save()
	Rollback() error
	// Rebroadcast repeats the broadcast of a stage without a Result.
	Rebroadcast(stage string) error
	// Regroup makes the run that of a rank in another group.
	Regroup(p Place) error
	// Share gives the run's state to the ranks that have joined the group.
	Share(ctx context.Context) error
}

// Sequence numbers the collectives of this rank. It is a *ddp.Group.
type Sequence interface {
	Seq() uint64
	Continue(seq uint64)
}

// Recovery replaces the process group of one rank's run. It belongs to the
// goroutine of the training loop, and allocates nothing in a stage that ends well.
type Recovery struct {
	Group    *ProcessGroup
	Sequence Sequence // set before the first Do

	run     Run
	timeout time.Duration // for ranks to meet: the timeout of a collective

	own      progress
	skipTo   int // stages before this one need not be run
	rounds   int // exchanges of progress
	futile   int // groups of the same ranks since a stage last succeeded
	finished bool
}

// New makes the recovery of a run in a process group. With group.Restarts 0, or
// a backend that cannot be restarted, stages are done once.
func New(run Run, group *ProcessGroup, timeout time.Duration) *Recovery {
	if m := group.Members; m != nil {
		group.before = m.Places()
		m.OnBroken(group.abort)
	}
	return &Recovery{Group: group, run: run, timeout: timeout}
}

// Do runs a stage with the other ranks. It may call do several times, or not at all if the others'
// results complete the stage.
func (r *Recovery) Do(ctx context.Context, s Stage, do func(context.Context) error) error {
	if !r.Group.replaceable() {
		return do(ctx)
	}
	r.own.Stage++
	if r.own.Stage < r.skipTo {
		r.own.remember(s)
		return nil // what it broadcasts was broadcast again
	}
	if s.Changes {
		r.run.Save()
	}
	begin := time.Now()
	for {
		err := do(ctx)
		if err == nil {
			r.futile = 0
			break
		}
		through, err := r.recover(ctx, s, err, begin)
		if err != nil {
			return err
		}
		if through {
			break
		}
	}
	r.own.remember(s)
	return nil
}

// Finish keeps a rank that has completed the run until all have: another one may need a new group
// for the rest. Only the first call does anything.
func (r *Recovery) Finish(ctx context.Context) error {
	if !r.Group.replaceable() || r.finished {
		return nil
	}
	r.own.Stage++
	_, err := r.recover(ctx, Stage{Name: end}, nil, time.Now())
	r.finished = err == nil
	return err
}

// recover forms a new process group after cause broke the old one, and returns whether the other
// ranks' progress completes this rank's stage. Without a cause the rank is at the end of the run,
// and recovers for others until all are there. begin is when the stage began, which ends that much
// later.
func (r *Recovery) recover(ctx context.Context, s Stage, cause error, begin time.Time) (through bool, err error) {
	ended := cause == nil
	ctx = context.WithoutCancel(ctx) // a step that was begun is completed before the run stops
	for {
		if cause != nil && !r.Group.mayReplace(cause) {
			return false, r.Group.exhausted(cause)
		}
		c, err := r.consensus(ctx, s, cause)
		switch {
		case err != nil:
			return false, alongside(cause, err)
		case c.finished:
			return true, r.regroup(c)
		}
		if err := r.regroup(c); err != nil {
			return false, alongside(cause, err)
		}
		if err := r.form(ctx, c); err != nil && r.Group.Members != nil && r.Group.mayReplace(err) {
			cause = err
			continue
		} else if err != nil {
			return false, r.Group.leaves(err)
		}
		r.Group.restarted(c.cause, r.run.Step(), begin)
		behind := r.own.Stage < c.stage
		if !behind && s.Changes {
			if err := r.run.Rollback(); err != nil {
				return false, err
			}
		}
		if cause = r.rebroadcast(c); cause != nil || ended {
			continue
		}
		if behind {
			r.skipTo = c.stage
			if c.admits {
				r.skipTo++ // whether others were admitted or not
			}
			restore(s.Result, c.result)
		}
		return behind, nil
	}
}

// maxFutile is how many groups the same ranks may form without completing a stage: perhaps they can connect, and the
// connections break again and again. Ranks that cannot connect leave, see odd.
const maxFutile = 3

// rebroadcast repeats the broadcasts that a rank has missed.
func (r *Recovery) rebroadcast(c consensus) error {
	for _, stage := range c.rebroadcast {
		if stage == admitting { // those that joined wait for the next admission
			continue
		}
		if err := r.run.Rebroadcast(stage); err != nil {
			return err
		}
	}
	return nil
}

// margin is how much longer than the timeout of a collective a rank waits for the others: the store of an
// elastic job ends this wait earlier, since it knows who is missing.
const margin = 10 * time.Second

// consensus exchanges the progress of all ranks.
func (r *Recovery) consensus(ctx context.Context, s Stage, cause error) (consensus, error) {
	why := entry(s, cause, r.own.New)
	if why == rank.Broken { // at the end, rank 0 may take its time to save
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, r.timeout+margin)
		defer cancel()
	}
	r.own.Name, r.own.Broadcast, r.own.Seq, r.own.Cause, r.own.Own = s.Name, s.Result == nil && s.Name != end, r.Sequence.Seq(), "", false
	if cause != nil {
		r.own.Cause, r.own.Own = brief(cause), errors.Is(cause, host.ErrDied) || errors.Is(cause, host.ErrHung)
	}
	r.own.Replaced, r.own.Node = r.Group.replaced, r.Group.Node
	own, err := json.Marshal(r.own)
	if err != nil {
		panic("recovery: " + err.Error())
	}
	r.rounds++
	var replies [][]byte
	if m := r.Group.Members; m != nil {
		replies, err = m.Regroup(ctx, why, own)
	} else {
		replies, err = r.Group.Gather(ctx, fmt.Sprintf("backend, round %d", r.rounds), own)
	}
	if err != nil {
		return consensus{}, err
	}
	all := make([]progress, len(replies))
	for i, b := range replies {
		if err := json.Unmarshal(b, &all[i]); err != nil {
			return consensus{}, fmt.Errorf("progress of rank %d: %w", i, err)
		}
	}
	return agree(all)
}

// alongside adds to a cause why the group could not be replaced. The cause is
// what decides how the rank ends.
func alongside(cause, err error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w; no new backend: %v", cause, err)
}

// restore writes the bits of a result to where a stage would have left it.
func restore(result []float64, bits []uint64) {
	for i, b := range bits[:min(len(result), len(bits))] {
		result[i] = math.Float64frombits(b)
	}
}
