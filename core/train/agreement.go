package train

import (
	"context"

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
