package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// numbers gives all ranks a number of each, by rank, until the next call.
func (t *Trainer) numbers(ctx context.Context, own float64) ([]float64, error) {
	return t.theirs, t.recovery.Do(ctx, recovery.Stage{Name: "numbers", Result: t.theirs}, func(context.Context) error {
		all, err := t.group.Gather(own)
		if err == nil {
			copy(t.theirs, all)
		}
		return err
	})
}

// allFinite tells all ranks whether a gradient of any of them is not finite.
func (t *Trainer) allFinite(context.Context) (err error) {
	mine := !t.optimizer.GradsFinite()
	if err := t.optimizer.Err(); err != nil {
		return err
	}
	bad, err := t.group.Any(mine)
	if err == nil {
		t.found[0] = 0
		if bad {
			t.found[0] = 1
		}
	}
	return err
}

// nextInputs finds out whether the epoch has another step. Where uneven inputs
// are allowed, ranks tell each other how many batches they bring. Otherwise they are
// taken to bring equally many, which costs no message: a data set that does not
// keep to it is found out by the totals of the step.
func (t *Trainer) nextInputs(ctx context.Context) (inputs, error) {
	own := min(t.feeder.Left(), t.Settings.Train.AccumulateSteps)
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return evenInputs(own, t.World.Size), nil
	}
	t.trace.Step(t.pos.Step + 1)
	if own > 0 {
		switch err := t.feeder.Peek(); {
		case errors.Is(err, data.ErrEnd):
			own = 0
		case err != nil:
			return inputs{}, err
		}
	}
	all, err := t.numbers(ctx, float64(own))
	if err != nil {
		return inputs{}, err
	}
	in := unevenInputs(all, own)
	if t.Settings.DDP.Uneven == ddp.UnevenStop && in.active < t.World.Size {
		in.passes = 0
	}
	return in, nil
}

// ranOut is called on all ranks when the data of some of them ended in the step
// at hand. When all of them had equally many batches the epoch is over, and
// without any rows the step does not count. Otherwise the inputs are uneven.
func (t *Trainer) ranOut(ctx context.Context, ended bool) (empty bool, err error) {
	flag := 0.0
	if ended {
		flag = 1
	}
	gathered, err := t.numbers(ctx, flag)
	if err != nil {
		return false, err
	}
	out := append([]float64(nil), gathered...)
	taken, err := t.numbers(ctx, float64(t.feeder.Used()))
	if err != nil {
		return false, err
	}
	even := true
	for r := range out {
		even = even && out[r] == 1 && taken[r] == taken[0]
	}
	if even {
		return t.sums[sumRows] == 0, nil
	}
	return false, unevenError(t.pos.Epoch, out, taken)
}
