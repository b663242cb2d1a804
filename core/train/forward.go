package train

import (
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// passes runs the forward and backward passes of a step over its micro-batches.
// Gradients go to the reducer as they become complete.
type passes struct {
	cfg  Config
	seed uint64
	rank int

	feeder   *data.Feeder
	programs programs
	model    *model
	device   *deviceMemory
	reducer  *ddp.Reducer
	exchange plan.Exchange      // nil without synchronised batch norms
	trace    *timeline.Recorder // nil when off

	onGrad     func(param int)
	onUnused   func(param int)
	onLoss     func() // nil without a timeline
	onEnqueued func() // nil where a program has ended by then

	first bool          // the pass under way is the first of its step
	begun timeline.Mark // of what is under way in the pass
}

// connect sends gradients to a new reducer.
func (p *passes) connect(r *ddp.Reducer) {
	p.reducer = r
	p.onGrad, p.onUnused = r.GradReady, p.unused
}

// record switches the timeline on.
func (p *passes) record(r *timeline.Recorder) {
	p.trace = r
	p.onLoss = func() { p.begun = r.Since(timeline.Compute, "forward", -1, p.begun) }
}

// overlap makes the next batch leave for the device while that computes, and
// buckets for the other ranks as they arrive.
func (p *passes) overlap() {
	p.onEnqueued = func() {
		p.feeder.Prefetch()
		_ = p.reducer.Arrive(true) // the reducer keeps the error for Flush
	}
}

// measures are what the passes of one step add up on this rank.
type measures struct {
	loss    float64 // mean over the step's samples
	correct int
	counted int // rows with a target
	rows    int
	data    time.Duration // waited for batches
	ended   bool          // the data set ended before a batch that was expected
}

// run does the passes of a step from pos on. Only the last one communicates; the
// others add up in the buckets (DDP's no_sync). A rank without batches of its own
// makes the collectives of the others' passes.
func (p *passes) run(in inputs, pos position, lossScale float64) (m measures, err error) {
	if err := p.device.err; err != nil {
		return m, err
	}
	total, last := p.feeder.Rows(in.own), in.passes-1
	for i := range in.passes {
		batch, err := p.next(in, i)
		if errors.Is(err, data.ErrEnd) {
			m.ended = m.ended || i < in.own
			err = p.shadow(m.rows, total, i == last)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return m, fmt.Errorf("samples from %d on of epoch %d: %w", pos.Offset+m.rows, pos.Epoch, err)
		}
		share := float64(batch.Rows) / float64(total)
		res := p.pass(batch, i, i == last, share, pos.Step, lossScale)
		if res.Err != nil {
			return m, fmt.Errorf("step %d, samples from %d on of epoch %d: %w", pos.Step+1, pos.Offset+m.rows, pos.Epoch, res.Err)
		}
		m.loss += res.Loss * share
		m.correct += res.Correct
		m.counted += res.Counted
		m.rows += batch.Rows
	}
	if m.rows > 0 {
		m.loss *= float64(total) / float64(m.rows)
	}
	m.data = p.feeder.Waited()
	return m, nil
}

// next is the batch of the i-th pass, data.ErrEnd if this rank has none for it.
func (p *passes) next(in inputs, i int) (b data.Batch, err error) {
	if i >= in.own {
		return b, data.ErrEnd
	}
	b, p.begun, err = p.feeder.Next(i)
	return b, err
}

// pass runs the i-th micro-batch of a step, whose samples are a share of the step's.
func (p *passes) pass(b data.Batch, i int, sync bool, share float64, step int, lossScale float64) plan.Result {
	p.reducer.Begin(sync)
	p.first = i == 0
	args := plan.Args{
		Input: b.Input, Target: b.Target,
		Accumulate: i > 0, LossScale: lossScale, LossDivisor: p.lossDivisor(share),
		Seed: p.seed, Step: uint64(step)*uint64(p.cfg.AccumulateSteps) + uint64(i), Rank: p.rank,
		OnGrad: p.onGrad, OnUnused: p.onUnused, OnLoss: p.onLoss, OnEnqueued: p.onEnqueued, Exchange: p.exchange,
	}
	res := p.programs.train[b.Rows].Run(args)
	if res.Err == nil {
		p.trace.Since(timeline.Compute, "backward", -1, p.begun)
	}
	return res
}

// lossDivisor makes accumulated micro-batches equal one big batch: each
// counts by its share of the samples. Without accumulate_mean they add up.
func (p *passes) lossDivisor(share float64) float64 {
	if !p.cfg.AccumulateMean {
		return 1
	}
	return 1 / share
}

// unused gives a parameter that takes no part in a pass zero as its gradient,
// unless passes before have left one.
func (p *passes) unused(param int) {
	if p.first {
		p.device.clear(p.model.grads[param])
	}
	p.reducer.Unused(param)
}

// shadow makes the collectives of a pass for which this rank has no batch, as
// PyTorch's Join does. Its gradients are those of the passes before, of rows samples where total were
// expected, or zero.
func (p *passes) shadow(rows, total int, sync bool) error {
	p.reducer.Begin(sync)
	return p.programs.outline.Plan.Shadow(p.exchange, func(param int) {
		if !sync {
		} else if g := p.model.grads[param]; rows == 0 {
			p.device.clear(g)
		} else if rows != total && p.cfg.AccumulateMean {
			p.device.scale(g, float64(total)/float64(rows))
		}
		p.reducer.Unused(param)
	})
}
