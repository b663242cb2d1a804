package train

import (
	"context"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/data"
	"github.com/trainctl/trainctl/core/event"
	"github.com/trainctl/trainctl/core/sdk"
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
	if err := t.startPass(); err != nil {
		return false, err
	}
	for begun := t.pos.Step; ; {
		begin := time.Now()
		next, err := t.nextTurn(ctx)
		if err != nil {
			return false, err
		}
		if next.passes == 0 {
			break
		}
		if t.pos.Step > begun && t.saveDueAt(t.pos.Step) {
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

// startPass asks for the epoch's batches from the position on.
func (t *Trainer) startPass() error {
	order := t.sampler.Epoch(t.pos.Epoch)
	t.taken, t.ahead, t.aheadErr = 0, data.Batch{}, nil
	t.home.forget()
	t.before = t.pos.Offset / t.batch
	return t.loader.Start(sdk.Train, t.pos.Epoch, order[min(len(order), t.pos.Offset):])
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
	if best || t.saveDueAfterEpoch() || t.saveDueAt(t.pos.Step) {
		return t.save(ctx)
	}
	return nil
}

// finish evaluates and saves the end of the run.
func (t *Trainer) finish(ctx context.Context) error {
	if err := t.loader.Stop(); err != nil {
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
	if err := t.conclude(ctx); err != nil {
		return err
	}
	return t.endsFinite()
}

// Preempted is what Run returns after it was asked to stop: the checkpoint at
// Step is complete and the run can be resumed.
type Preempted struct {
	Step  int
	Saved bool // false when checkpoints are off
}

func (p *Preempted) Error() string {
	if !p.Saved {
		return fmt.Sprintf("stopped after step %d as asked; nothing was saved because checkpoint.every = \"never\"", p.Step)
	}
	return fmt.Sprintf("stopped after step %d as asked; continue with --resume auto", p.Step)
}

func (t *Trainer) preempt(ctx context.Context) error {
	p := &Preempted{Step: t.pos.Step, Saved: !t.interval().Never()}
	if p.Saved {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	if err := t.conclude(ctx); err != nil {
		return err
	}
	return p
}

func (t *Trainer) atMaxSteps() bool {
	return t.Settings.Train.MaxSteps > 0 && t.pos.Step >= t.Settings.Train.MaxSteps
}

// atEnd reports whether there is nothing left to train. Without a number of
// epochs, max_steps ends the run.
func (t *Trainer) atEnd() bool {
	return t.atMaxSteps() || t.Settings.Train.Epochs > 0 && t.pos.Epoch >= t.Settings.Train.Epochs
}
