package train

import (
	"github.com/trainctl/trainctl/core/report/timeline"
)

// record switches the timeline on if the configuration says so.
func (t *Trainer) record() {
	if !t.Settings.Timeline {
		return
	}
	micro := t.outline.Division.Accumulate
	collectives := 2*t.reducer.Buckets() + micro*len(t.outline.Plan.Exchanges()) + 5 // buffers, inputs, totals, used parameters, finite
	t.trace = timeline.New(t.Started, 3*micro+2+collectives)
	t.group.Trace(t.trace)
	t.feeder.Trace(t.trace)
	t.passes.Record(t.trace)
}

// Timeline is what this rank recorded; nil when it is off.
func (t *Trainer) Timeline() []timeline.Slice { return t.trace.Slices() }

// TimelineOn reports whether ranks record what they do.
func (t *Trainer) TimelineOn() bool { return t.trace != nil }
