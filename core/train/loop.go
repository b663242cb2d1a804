package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// Run trains to the end of the configuration. When the context ends, all
// ranks finish the step they are in, save, and Run returns Preempted.
func (t *Trainer) Run(ctx context.Context) error {
	t.Events.Emit(&event.PhaseChanged{Phase: "train"})
	t.stats.begin = time.Now()
	for !t.atEnd() {
		stop, err := t.epoch(ctx)
		if err != nil {
			return err
		}
		if stop {
			return t.preempt(ctx)
		}
		if err := t.afterEpoch(ctx); err != nil {
			return err
		}
	}
	t.stats.end = time.Now()
	return t.finish(ctx)
}

// epoch runs what is left of the current epoch.
func (t *Trainer) epoch(ctx context.Context) (stop bool, err error) {
	if err := t.feeder.Start(t.pos.Epoch, t.pos.Offset); err != nil {
		return false, err
	}
	for begun := t.pos.Step; ; {
		begin := time.Now()
		next, err := t.nextInputs(ctx)
		if err != nil {
			return false, err
		}
		if next.passes == 0 {
			break
		}
		if t.pos.Step > begun && (t.saveDueAt(t.pos.Step) || t.saveIsAsked()) {
			if err := t.save(ctx); err != nil {
				return false, err
			}
			begin = time.Now()
		}
		if stop, err = t.step(ctx, next, begin); err != nil || stop {
			return stop, err
		}
		if t.atMaxSteps() {
			return false, nil
		}
	}
	t.pos.Epoch++
	t.pos.Offset = 0
	return false, t.endEpoch(ctx)
}

// saveIsAsked reports whether any rank was asked to save during the last step,
// which is the same on all of them, and takes the requests for met.
func (t *Trainer) saveIsAsked() bool {
	if t.sums[sumSave] == 0 {
		return false
	}
	t.sums[sumSave] = 0
	if t.SaveAsked != nil {
		t.saved = t.SaveAsked()
	}
	if t.interval().Never() && t.World.Rank == 0 {
		t.Events.Emit(&event.Warning{Source: "checkpoint", Message: `asked to save, but checkpoint.every = "never"; training continues`})
	}
	return true
}

// endEpoch gives all ranks the model of the one that had data the longest, the
// highest of several. Parameters and the optimizer's state are equal on all
// ranks already, since those without data apply the others' gradients, too.
func (t *Trainer) endEpoch(ctx context.Context) error {
	if !t.join.on() {
		return nil
	}
	return t.settleBuffers(ctx)
}

// afterEpoch evaluates and saves where the configuration asks for it, and saves
// the weights that turn out the best (keep_best). The end of the run has its own
// rules: finish evaluates and saves once.
func (t *Trainer) afterEpoch(ctx context.Context) error {
	if t.atEnd() {
		return nil
	}
	best := false
	if every := t.Settings.Train.EvalEvery; every > 0 && t.pos.Epoch%every == 0 {
		if err := t.evaluate(ctx); err != nil {
			return err
		}
		best = t.best.evaluated(t.vals, t.pos.Step) && !t.interval().Never()
	}
	if best || t.saveDueAfterEpoch() || t.saveDueAt(t.pos.Step) || t.saveIsAsked() {
		return t.save(ctx)
	}
	return nil
}

// finish evaluates and saves the end of the run.
func (t *Trainer) finish(ctx context.Context) error {
	if err := t.feeder.Stop(); err != nil {
		return err
	}
	if t.Settings.Train.EvalEvery > 0 {
		if err := t.evaluate(ctx); err != nil {
			return err
		}
	}
	if err := t.settleBuffers(ctx); err != nil {
		return err
	}
	if !t.interval().Never() {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	if err := t.recovery.Finish(ctx); err != nil {
		return err
	}
	return t.endsFinite()
}

// Preempted is what Run returns after it was asked to stop and has done so.
type Preempted struct {
	Step int

	// Saved says that the checkpoint of Step was written and read back, on rank
	// 0's file system; false when checkpoints are off.
	Saved bool
}

func (p *Preempted) Error() string {
	if !p.Saved {
		return fmt.Sprintf("stopped after step %d as asked; nothing was saved because checkpoint.every = \"never\"", p.Step)
	}
	return fmt.Sprintf("stopped after step %d as asked; continue with --resume auto", p.Step)
}

// preempt saves and ends the run. No rank says that it was saved before rank 0
// has read the checkpoint back.
func (t *Trainer) preempt(ctx context.Context) error {
	p := &Preempted{Step: t.pos.Step, Saved: !t.interval().Never()}
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

// settled is why the checkpoint that was just written is not whole on disk. What
// else went wrong meanwhile, with an earlier one, is a warning.
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

// agreeSaved tells all ranks whether rank 0 has saved. Its failure is theirs.
func (t *Trainer) agreeSaved(ctx context.Context, unsaved error) error {
	if unsaved != nil {
		unsaved = fmt.Errorf("stopped after step %d as asked, and it was not saved: %w", t.pos.Step, unsaved)
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
		return fmt.Errorf("rank 0 %s", all[0]) // what this rank was asked for failed as well
	}
	return nil
}

func (t *Trainer) atMaxSteps() bool {
	return t.Settings.Train.MaxSteps > 0 && t.pos.Step >= t.Settings.Train.MaxSteps
}

// atEnd reports whether there is nothing left to train. Without a number of
// epochs, max_steps ends the run.
func (t *Trainer) atEnd() bool {
	return t.atMaxSteps() || t.Settings.Train.Epochs > 0 && t.pos.Epoch >= t.Settings.Train.Epochs
}
