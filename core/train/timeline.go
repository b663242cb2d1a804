package train

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trainctl/trainctl/core/timeline"
)

// record switches the timeline on where the configuration asks for it.
func (t *Trainer) record() {
	if !t.Settings.Timeline {
		return
	}
	micro := t.Settings.Train.AccumulateSteps
	collectives := 2*t.reducer.Buckets() + micro*len(t.outline.Plan.Exchanges()) + 5 // buffers, turn, totals, used parameters, finite
	t.trace = timeline.New(t.Started, 3*micro+2+collectives)
	t.group.Trace(t.trace)
	t.onLoss = func() { t.begun = t.trace.Since(timeline.Compute, "forward", -1, t.begun) }
}

// Timeline collects what all ranks recorded, by rank; nil when it is off. All
// ranks call it after Run.
func (t *Trainer) Timeline(ctx context.Context) ([][]timeline.Slice, error) {
	if t.trace == nil {
		return nil, nil
	}
	mine, err := json.Marshal(t.trace.Slices())
	if err != nil {
		return nil, err
	}
	all, err := t.Gather(ctx, "timeline", mine)
	if err != nil {
		return nil, err
	}
	ranks := make([][]timeline.Slice, len(all))
	for r, b := range all {
		if err := json.Unmarshal(b, &ranks[r]); err != nil {
			return nil, fmt.Errorf("rank %d's timeline: %w", r, err)
		}
	}
	return ranks, nil
}
