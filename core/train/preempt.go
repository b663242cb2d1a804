package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/report/event"
)

// Preempted is the error of Run after a requested stop.
type Preempted struct {
	Step int

	// Saved says that the checkpoint of Step was written and read back, on rank
	// 0's file system; false when checkpoints are off.
	Saved bool
}

func (p *Preempted) Error() string {
	if !p.Saved {
		return fmt.Sprintf("stopped after step %d as requested; nothing was saved because checkpoint.every = \"never\"", p.Step)
	}
	return fmt.Sprintf("stopped after step %d as requested; continue with --resume auto", p.Step)
}

// preempt saves and ends the run. No rank says that it was saved before rank 0
// has read the checkpoint back.
func (t *Trainer) preempt(ctx context.Context) error {
	p := &Preempted{Step: t.pos.Step, Saved: !t.saver.every.Never()}
	var unsaved error
	if p.Saved {
		var err error
		if unsaved, err = t.store(ctx); err != nil {
			return err
		}
		if t.World.Rank == 0 && t.Store != nil {
			unsaved = t.settled(ctx, unsaved)
		}
	}
	if err := t.recovery.Finish(ctx); err != nil {
		return errors.Join(unsaved, err)
	}
	if p.Saved {
		if err := t.agreeSaved(context.WithoutCancel(ctx), unsaved); err != nil {
			return err
		}
	}
	return p
}

// settled returns why the checkpoint that was just written is not intact on disk. An error with an
// earlier checkpoint is a warning.
func (t *Trainer) settled(ctx context.Context, unsaved error) error {
	err := t.Store.Settle(context.WithoutCancel(ctx), t.pos.Step)
	switch {
	case err == nil && unsaved != nil:
		t.Events.Emit(&event.Warning{Source: "checkpoint", Message: unsaved.Error()})
		return nil
	case err != nil && unsaved == nil:
		return fmt.Errorf("saving a checkpoint after step %d: %w", t.pos.Step, err)
	}
	return unsaved
}

// agreeSaved tells all ranks whether rank 0 has saved. If rank 0 failed, all ranks
// return the error.
func (t *Trainer) agreeSaved(ctx context.Context, unsaved error) error {
	if unsaved != nil {
		unsaved = fmt.Errorf("stopped after step %d as requested, and it was not saved: %w", t.pos.Step, unsaved)
	}
	var text []byte
	if unsaved != nil {
		text = []byte(unsaved.Error())
	}
	all, err := t.Gather(ctx, "saved", text)
	switch {
	case unsaved != nil:
		return unsaved
	case err != nil:
		return err
	case len(all[0]) > 0:
		return fmt.Errorf("rank 0 %s", all[0]) // this rank could not save either
	}
	return nil
}
