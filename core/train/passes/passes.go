package passes

import (
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/metric"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
)

// Passes runs the forward and backward passes of a step over its micro-batches.
// Gradients go to the reducer as they become complete.
type Passes struct {
	Cfg        outline.TrainConfig
	Accumulate int // maximum number of passes in a step
	Seed       uint64
	Rank       int
	Local      bool // nothing communicates: the gradients of a step are this rank's (ddp.sync_every)

	Feeder   *data.Feeder
	Programs Programs
	Counter  *metric.Counter // of evaluations; nil where no metric needs outputs
	Model    *replica.Model
	Device   *replica.Device
	reducer  *ddp.Reducer
	Exchange plan.Exchange      // nil without synchronised batch norms
	trace    *timeline.Recorder // nil when off

	OnGrad     func(param int)
	onUnused   func(param int)
	onLoss     func() // nil without a timeline
	profile    *profile
	onEnqueued func() // nil where a program has ended by then

	first bool          // the pass under way is the first of its step
	begun timeline.Mark // of what is under way in the pass
}

// Connect sends gradients to a new reducer.
func (p *Passes) Connect(r *ddp.Reducer) {
	p.reducer = r
	p.OnGrad, p.onUnused = r.GradReady, p.unused
}

// Record switches the timeline on. With layers, what each layer takes is added up: see Layers.
func (p *Passes) Record(r *timeline.Recorder, layers bool) {
	p.trace = r
	if layers {
		p.profile = newProfile()
	}
	p.onLoss = func() { p.begun = r.Since(timeline.Compute, "forward", -1, p.begun) }
}

// Overlap makes the next batch be copied to the device while the device computes, and buckets be
// sent to the other ranks as they arrive.
func (p *Passes) Overlap() {
	p.onEnqueued = func() {
		p.Feeder.Prefetch()
		_ = p.reducer.Arrive(true) // the reducer keeps the error for Flush
	}
}

// Measures are what the passes of one step add up on this rank.
type Measures struct {
	Loss    float64 // mean over the step's samples
	Weight  float64 // weight of Loss in the mean over ranks, 1 on average
	Correct int
	Counted int // rows with a target
	Rows    int
	Data    time.Duration // waited for batches
	Idle    time.Duration // of Data, while nothing was computed
	Ended   bool          // the data set ended before a batch that was expected
}

// Run does the passes of a step from pos on. Only the last one communicates; the
// others add up in the buckets (DDP's no_sync). A rank without batches of its own
// makes the collectives of the others' passes.
func (p *Passes) Run(in Inputs, pos outline.Position, lossScale float64) (m Measures, err error) {
	if err := p.Device.Err; err != nil {
		return m, err
	}
	total, last := p.Feeder.Rows(in.own), in.Passes-1
	mean := float64(total)
	if in.mean > 0 {
		mean = in.mean
	}
	m.Weight = 1
	if mean > 0 {
		m.Weight = float64(total) / mean
	}
	if p.Local {
		mean = float64(total)
	}
	for i := range in.Passes {
		batch, err := p.next(in, i)
		if errors.Is(err, data.ErrEnd) {
			m.Ended = m.Ended || i < in.own
			err = p.shadow(m.Rows, total, i == last)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return m, fmt.Errorf("samples from %d on of epoch %d: %w", pos.Offset+m.Rows, pos.Epoch, err)
		}
		share := float64(batch.Rows) / float64(total)
		res := p.pass(batch, i, i == last, float64(batch.Rows)/mean, pos.Step, lossScale)
		if res.Err != nil {
			return m, fmt.Errorf("step %d, samples from %d on of epoch %d: %w", pos.Step+1, pos.Offset+m.Rows, pos.Epoch, res.Err)
		}
		m.Loss += res.Loss * share
		m.Correct += res.Correct
		m.Counted += res.Counted
		m.Rows += batch.Rows
	}
	if m.Rows > 0 {
		m.Loss *= float64(total) / float64(m.Rows)
	}
	m.Data, m.Idle = p.Feeder.Waited()
	return m, nil
}

// next is the batch of the i-th pass, data.ErrEnd if this rank has none for it.
func (p *Passes) next(in Inputs, i int) (b data.Batch, err error) {
	if i >= in.own {
		return b, data.ErrEnd
	}
	b, p.begun, err = p.Feeder.Next(i)
	return b, err
}

// pass runs the i-th micro-batch of a step, share is that of its samples among those that count as
// one rank's.
func (p *Passes) pass(b data.Batch, i int, sync bool, share float64, step int, lossScale float64) plan.Result {
	p.reducer.Begin(sync && !p.Local)
	p.first = i == 0
	program := p.Programs.Train[b.Rows]
	args := plan.Args{
		Input: b.Input, Target: b.Target,
		Accumulate: i > 0, LossScale: lossScale * p.reducer.LossFactor(), LossDivisor: p.lossDivisor(share),
		Seed: p.Seed, Step: uint64(step)*uint64(p.Accumulate) + uint64(i), Rank: p.Rank,
		OnGrad: p.OnGrad, OnUnused: p.onUnused, OnLoss: p.onLoss, OnEnqueued: p.onEnqueued, Exchange: p.Exchange,
		OnStep: p.profile.of(program.Plan(), i == 0),
	}
	res := program.Run(args)
	if res.Err == nil {
		p.trace.Since(timeline.Compute, "backward", -1, p.begun)
	}
	return res
}

// lossDivisor makes accumulated micro-batches equal one big batch: each
// counts by its share of the samples. Without accumulate_mean they add up.
func (p *Passes) lossDivisor(share float64) float64 {
	if !p.Cfg.AccumulateMean {
		return 1
	}
	return 1 / share
}

// unused sets the gradient of a parameter that takes no part in a pass to zero, unless earlier
// passes have left one.
func (p *Passes) unused(param int) {
	if p.first {
		p.Device.Clear(p.Model.Grads[param])
	}
	p.reducer.Unused(param)
}

// shadow makes the collectives of a pass for which this rank has no batch, as PyTorch's Join does.
// Its gradients are those of earlier passes, over rows samples where total were expected, or zero.
func (p *Passes) shadow(rows, total int, last bool) error {
	p.reducer.Begin(last && !p.Local)
	return p.Programs.Outline.Plan.Shadow(p.Exchange, func(param int) {
		if !last {
		} else if g := p.Model.Grads[param]; rows == 0 {
			p.Device.Clear(g)
		} else if rows != total && p.Cfg.AccumulateMean {
			p.Device.Scale(g, float64(total)/float64(rows))
		}
		p.reducer.Unused(param)
	})
}
