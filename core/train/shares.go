package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/passes"
)

// shares makes steps take equally long on ranks of different speed (launch.shares = "auto"). All
// ranks measure how long they compute per sample, exchange it every few steps, and divide the next
// steps by it. The samples of a step stay the same, and gradients are weighted by them, so that only
// the order of sums changes.
type shares struct {
	changed bool // the division of steps, since the feeder was started

	auto   bool
	since  int       // step of the last exchange, or of the last change of ranks
	period int       // steps until the next exchange
	busy   []float64 // milliseconds per sample of this rank's last steps since then, without waits
	steps  int       // measured since then
}

const (
	sharePeriod = 20   // steps until the first exchange, and after a change
	longPeriod  = 320  // while nothing changes, periods double up to this
	shareWarmup = 2    // steps that are not measured: they fill caches and queues
	leastShare  = 8    // a rank has at least an equal share divided by this
	leastGain   = 0.05 // part of a step's time that a change must save
)

func newShares(auto bool) shares {
	return shares{auto: auto, period: sharePeriod, busy: make([]float64, 0, sharePeriod)}
}

// begin starts to measure after a step.
func (s *shares) begin(step, period int) {
	s.since, s.period, s.busy, s.steps = step, period, s.busy[:0], 0
}

// measure records how long this rank computed the rows of a step.
func (s *shares) measure(step int, busy time.Duration, rows int) {
	if !s.auto || rows == 0 || step <= s.since+shareWarmup {
		return
	}
	ms := event.Millis(busy) / float64(rows)
	if len(s.busy) < cap(s.busy) {
		s.busy = append(s.busy, ms)
	} else {
		s.busy[s.steps%cap(s.busy)] = ms
	}
	s.steps++
}

// due reports whether ranks exchange their measurements before the next step.
func (s *shares) due(step int) bool { return s.auto && step-s.since >= s.period }

// perSample is the median of this rank's milliseconds per sample; 0 if it had none.
func (s *shares) perSample() float64 {
	if len(s.busy) == 0 {
		return 0
	}
	slices.Sort(s.busy)
	return s.busy[len(s.busy)/2]
}

// rebalance changes the shares of the ranks if that makes the next steps shorter. All ranks decide
// the same, because all decide by the same numbers.
func (t *Trainer) rebalance(ctx context.Context) error {
	s := &t.shares
	if !s.due(t.pos.Step) {
		return nil
	}
	before, now := t.outline.Division, sharesOf(t.outline.Division, t.World.Size)
	gathered, err := t.agreement.Gather(ctx, s.perSample())
	if err != nil || len(gathered) != len(now) { // other ranks have measured
		return err
	}
	times := slices.Clone(gathered)
	next, gain := t.betterShares(times, now)
	if gain < leastGain {
		s.begin(t.pos.Step, min(longPeriod, 2*s.period))
		return nil
	}
	s.begin(t.pos.Step, sharePeriod)
	var failed error
	if !s.changed { // else a rank was lost after others had the times; they exchange this, too
		failed = t.redivide(next)
	}
	failures, err := t.agreement.Gather(ctx, agreement.Flag(failed != nil))
	if err != nil || s.changed {
		return err
	}
	if slices.Contains(failures, 1) { // a micro-batch is too small for the model
		s.begin(t.pos.Step, longPeriod)
		return t.redivide(before)
	}
	s.changed = true
	t.Events.Emit(&event.Shares{Step: t.pos.Step + 1, Samples: next.Shares.Whole(), Before: now, MSPerSample: times, Gain: gain})
	return nil
}

// betterShares divides a step in proportion to the speeds of ranks that take these milliseconds per
// sample, in micro-batches for which there is memory. gain is the part of the step's time that this
// saves.
func (t *Trainer) betterShares(times []float64, now []int) (d data.Division, gain float64) {
	if !(slices.Min(times) > 0) {
		return d, 0 // a rank had no samples
	}
	d = data.Division{Step: t.outline.Division.Step}.Weighted(weightsFor(times), t.outline.Plan.Batch)
	return d, gainOf(times, now, d.Shares.Whole())
}

// redivide changes the division of the steps from the next one on. The samples of a step stay the
// same.
func (t *Trainer) redivide(d data.Division) error {
	t.outline.Division = d
	t.passes.Accumulate = max(t.passes.Accumulate, d.Accumulate)
	err := t.feeder.Stop()
	t.feed()
	return errors.Join(err, t.rebind())
}

// sharesOf are the samples of a whole step by rank.
func sharesOf(d data.Division, world int) []int {
	n := make([]int, world)
	for r := range n {
		n[r] = d.Share(d.Step, world, r)
	}
	return n
}

// weightsFor returns weights in proportion to the speeds of ranks that take these milliseconds per
// sample.
func weightsFor(times []float64) []int {
	const scale = 1 << 10 // weights are whole numbers
	var total, fastest float64
	for _, ms := range times {
		total, fastest = total+1/ms, max(fastest, 1/ms)
	}
	least := total / float64(len(times)) / leastShare
	weights := make([]int, len(times))
	for r, ms := range times {
		weights[r] = max(1, int(scale*max(1/ms, least)/fastest))
	}
	return weights
}

// gainOf is the part of a step's time that other shares save, for ranks that take these milliseconds
// per sample: 0 if one of them would get no sample.
func gainOf(times []float64, now, next []int) float64 {
	var before, after float64
	for r, ms := range times {
		if next[r] == 0 {
			return 0
		}
		before, after = max(before, ms*float64(now[r])), max(after, ms*float64(next[r]))
	}
	return 1 - after/before
}

// inputs returns the inputs of the next step, for the current ranks and shares.
func (t *Trainer) inputs(ctx context.Context) (passes.Inputs, error) {
	if !t.shares.changed {
		if err := t.rebalance(ctx); err != nil {
			return passes.Inputs{}, err
		}
	}
	if t.shares.changed {
		return t.restart(ctx)
	}
	return t.nextInputs(ctx)
}
