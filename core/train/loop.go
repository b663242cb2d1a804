package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/passes"
)

// Run trains to the end of the configuration. When the context ends, all
// ranks finish the step they are in, save, and Run returns Preempted.
func (t *Trainer) Run(ctx context.Context) error {
	t.enter("train")
	t.report.Stats.Begin = time.Now()
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
	t.report.Stats.End = time.Now()
	return t.finish(ctx)
}

// epoch runs what is left of the current epoch.
func (t *Trainer) epoch(ctx context.Context) (stop bool, err error) {
	if err := t.feeder.Start(t.pos.Epoch, t.pos.Offset); err != nil {
		return false, err
	}
	for begun := t.pos.Step; ; {
		begin := time.Now()
		in, err := t.inputs(ctx)
		if err != nil {
			return false, err
		}
		if in.Passes == 0 {
			break
		}
		if t.pos.Step > begun && (t.saveDue() || t.saveRequested()) {
			if err := t.save(ctx); err != nil {
				return false, err
			}
			begin = time.Now()
		}
		if stop, err = t.admit(ctx); err != nil || stop {
			return stop, err
		}
		if stop, err = t.step(ctx, in, begin); err != nil || stop {
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

// nextInputs returns the inputs of the next step of the epoch, if there is one. If uneven
// inputs are allowed, ranks exchange how many batches they have. Otherwise all are assumed
// to have what the sampler gives them, which needs no message: the totals of the step show
// if a data set ended earlier.
func (t *Trainer) nextInputs(ctx context.Context) (passes.Inputs, error) {
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return passes.Planned(t.feeder.Step(), t.World.Size, t.outline.Weigh), nil
	}
	own := min(t.feeder.Left(), t.outline.Division.Accumulate)
	t.trace.Step(t.pos.Step + 1)
	if own > 0 {
		switch err := t.feeder.Peek(); {
		case errors.Is(err, data.ErrEnd):
			own = 0
		case err != nil:
			return passes.Inputs{}, err
		}
	}
	all, err := t.agreement.Gather(ctx, float64(own))
	if err != nil {
		return passes.Inputs{}, err
	}
	in := passes.Uneven(all, own)
	if t.Settings.DDP.Uneven == ddp.UnevenStop && in.Active < t.World.Size {
		in.Passes = 0
	}
	return in, nil
}

// requests returns the flags that this rank sends to all ranks in a step with its own measures.
func (t *Trainer) requests(ctx context.Context, own passes.Measures) agreement.Requests {
	return agreement.Requests{
		Stop: ctx.Err() != nil, Save: t.saver.requested(),
		Join:  t.Members != nil && t.Members.Wanted(),
		Ended: own.Ended && t.Settings.DDP.Uneven == ddp.UnevenError,
		News:  len(t.Events.Outbox()) > 0,
	}
}

// deliver gives rank 0 the events that other ranks have for the run's files, if some rank had any in the
// last step.
func (t *Trainer) deliver(ctx context.Context) error {
	if !t.agreement.News() {
		return nil
	}
	own := t.Events.Outbox()
	all, err := t.agreement.Concat(ctx, "events", own)
	if err != nil {
		return err
	}
	t.Events.Delivered(len(own))
	t.Events.Deliver(all)
	return nil
}

// samples returns by how many samples a step advances all ranks together in the epoch's
// order. Ranks that ran out leave their places in it empty.
func (t *Trainer) samples(in passes.Inputs) int {
	if t.passes.Local {
		return in.Samples
	}
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return int(t.agreement.Totals[agreement.SumRows])
	}
	return in.Passes * t.outline.Batch * t.World.Size
}

// outOfData is called on all ranks when the data of some of them ended in this
// step. When all of them had equally many batches, or those of their shares, the epoch is over, and
// without any rows the step does not count. Otherwise the inputs are uneven.
func (t *Trainer) outOfData(ctx context.Context, ended bool) (empty bool, err error) {
	gathered, err := t.agreement.Gather(ctx, agreement.Flag(ended))
	if err != nil {
		return false, err
	}
	out := slices.Clone(gathered)
	taken, err := t.agreement.Gather(ctx, float64(t.feeder.Used()))
	if err != nil {
		return false, err
	}
	even := true
	for r := range out {
		even = even && out[r] == 1 && (taken[r] == taken[0] || t.outline.Division.Shares != nil)
	}
	if even {
		return t.agreement.Totals[agreement.SumRows] == 0, nil
	}
	return false, unevenError(t.pos.Epoch, out, taken)
}

// saveRequested reports whether any rank was asked to save during the last step,
// which is the same on all of them, and counts the requests as served.
func (t *Trainer) saveRequested() bool {
	if !t.agreement.SaveAsked() {
		return false
	}
	t.agreement.Totals[agreement.SumSave] = 0
	t.saver.serve()
	if t.saver.every.Never() && t.World.Rank == 0 {
		t.Events.Emit(&event.Warning{Source: "checkpoint", Message: `cannot save as requested, because checkpoint.every = "never"; training continues`})
	}
	return true
}

// endEpoch gives all ranks the model of the rank that had data the longest, of several the highest.
// Parameters and the optimizer's state are equal on all ranks already, since those without data
// apply the others' gradients, too.
func (t *Trainer) endEpoch(ctx context.Context) error {
	if !t.join.on() {
		return nil
	}
	return t.settleBuffers(ctx)
}

// afterEpoch evaluates and saves if the configuration says so, and saves
// the best weights (keep_best). At the end of the run, finish evaluates and saves instead,
// once.
func (t *Trainer) afterEpoch(ctx context.Context) error {
	if t.atEnd() {
		return nil
	}
	best := false
	if every := t.Settings.Train.EvalEvery; every > 0 && t.pos.Epoch%every == 0 {
		if err := t.evaluate(ctx); err != nil {
			return err
		}
		best = t.saver.best.evaluated(t.report.Metrics, t.pos.Step) && !t.saver.every.Never()
	}
	if best || t.saver.dueAfter(t.pos.Epoch) || t.saveDue() || t.saveRequested() {
		return t.save(ctx)
	}
	return nil
}

// finish evaluates and saves the end of the run.
func (t *Trainer) finish(ctx context.Context) error {
	if err := t.feeder.Stop(); err != nil {
		return err
	}
	if t.Settings.Train.EvalEvery > 0 && !t.saver.early.over() { // the evaluation has decided that
		if err := t.evaluate(ctx); err != nil {
			return err
		}
	}
	if err := t.settleBuffers(ctx); err != nil {
		return err
	}
	if !t.saver.every.Never() {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	if err := t.recovery.Finish(ctx); err != nil {
		return err
	}
	return t.endsFinite()
}

func (t *Trainer) atMaxSteps() bool {
	return t.Settings.Train.MaxSteps > 0 && t.pos.Step >= t.Settings.Train.MaxSteps
}

// atEnd reports whether there is nothing left to train. Without a number of
// epochs, max_steps ends the run; early stopping may end it before.
func (t *Trainer) atEnd() bool {
	return t.atMaxSteps() || t.saver.early.over() || t.Settings.Train.Epochs > 0 && t.pos.Epoch >= t.Settings.Train.Epochs
}
