package train

import (
	"fmt"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/passes"
)

// With ddp.sync_every ranks train in rounds. Within a round a rank sends nothing; the last step of a
// round exchanges totals, as every step of other runs does, and averages weights after the update.
// Evaluations, checkpoints and requests to stop or save wait for the end of a round, so that the
// weights of all ranks are equal there.

// roundEnds reports whether ranks synchronise after the step under way: after ddp.sync_every steps, and
// at the end of an epoch and of the run.
func (t *Trainer) roundEnds(in passes.Inputs) bool {
	left := t.outline.Sampler.End(t.pos.Offset, t.outline.Division.Step) - t.pos.Offset
	last := t.Settings.Train.MaxSteps
	return t.replication.Averaging.Due(t.pos.Step+1) || in.Samples >= left || last > 0 && t.pos.Step+1 >= last
}

// alone completes the totals of a step within a round, which this rank does not exchange. It reports
// false for a step that ends a round.
func (t *Trainer) alone(in passes.Inputs, own passes.Measures) (bool, error) {
	if own.Ended {
		return false, fmt.Errorf("epoch %d: the data set ended before the number of samples that it published, and with ddp.sync_every the other ranks cannot notice; fix: publish the right number, or set ddp.sync_every to 1", t.pos.Epoch)
	}
	if t.roundEnds(in) {
		return false, nil
	}
	t.agreement.Alone(own, in.Samples)
	return true, nil
}

// synchronise averages the weights of all ranks after the update of a step that ends a round.
func (t *Trainer) synchronise(in passes.Inputs) error {
	if !t.roundEnds(in) {
		return nil
	}
	mark := t.trace.Now()
	err := t.replication.Averaging.Synchronise(t.pos.Step + 1)
	t.trace.Since(timeline.Compute, "average weights", -1, mark)
	if err != nil {
		return fmt.Errorf("step %d: %w", t.pos.Step+1, err)
	}
	return nil
}

// averageState gives all ranks the mean of their optimizers' states, because a checkpoint has one state.
func (t *Trainer) averageState() error {
	if !t.passes.Local {
		return nil
	}
	return t.replication.Averaging.State(t.updater.Optimizer)
}

// saveDue reports whether a checkpoint is due after the last step.
func (t *Trainer) saveDue() bool {
	before, ended := t.replication.Averaging.Round(t.pos.Step)
	return ended && t.saver.dueAt(before, t.pos.Step)
}
