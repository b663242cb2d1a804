package train

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// warmup steps are left out of throughput and step times.
const warmup = 10

// report emits the events of steps and evaluations, and collects statistics for the
// summary.
type report struct {
	events   *event.Bus
	started  time.Time // of the launcher's process
	classes  bool      // targets are classes: there is an accuracy
	scaled   bool      // the loss has a scale
	maxSkips int       // train.max_skips

	stats     stats
	metrics   metrics
	done      event.StepDone // reused
	warned    bool           // that the loss is not finite
	evaluated bool           // in this process; metrics may be a checkpoint's
	planning  time.Duration  // took that long
}

// stats are what the summary is made of. Slices have their full capacity from
// the start: a step does not allocate.
type stats struct {
	begin, end time.Time
	firstStep  time.Duration // since report.started; 0 until there was one
	mark       time.Time     // end of the last warm-up step
	samples    float64       // over all ranks, since mark
	steps      int           // in this process
	stepMS     []float64
	waits      waits
	last       time.Time // end of the last step
	lossMean   float64
}

// newStats has room for a run of that many steps.
func newStats(steps int) stats {
	return stats{stepMS: make([]float64, 0, min(steps, 1<<20)), waits: newWaits()}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stepResult is a step that has ended.
type stepResult struct {
	pos     position // after it
	own     measures
	totals  *sums // over all ranks
	active  int   // ranks that had data
	lr      float64
	norm    float64 // of the gradients
	skipped bool
	scale   float64 // of the next step's loss
	took    time.Duration
	exposed time.Duration // of communication: this rank stood still for it
}

// step records and reports a step.
func (r *report) step(s stepResult) {
	loss := s.totals[sumLoss] / float64(s.active)
	r.stats.add(s, loss, r.started)
	r.metrics.set("train.loss", loss, s.pos.Step)
	r.done = event.StepDone{
		Step: s.pos.Step, Epoch: s.pos.Epoch, Loss: s.own.loss, LossMean: loss, Accuracy: -1, LR: s.lr,
		StepMS: ms(s.took), DataMS: ms(s.own.data), CommMS: ms(s.exposed),
		Samples: int(s.totals[sumRows]), SamplesPerSec: s.totals[sumRows] / s.took.Seconds(),
		GradNorm: s.norm, Skipped: s.skipped,
	}
	if r.classes && s.totals[sumCounted] > 0 {
		r.done.Accuracy = s.totals[sumCorrect] / s.totals[sumCounted]
	}
	if r.scaled {
		r.done.Scale = s.scale
	}
	r.events.Emit(&r.done)
	if !isFinite(loss) {
		r.warnLoss(loss, s.pos.Step)
	}
}

func (st *stats) add(s stepResult, loss float64, started time.Time) {
	now := time.Now()
	st.steps++
	if st.steps == 1 {
		st.firstStep = now.Sub(started)
	}
	st.last, st.lossMean = now, loss
	if st.steps <= warmup {
		st.mark = now
		return
	}
	st.samples += s.totals[sumRows]
	if len(st.stepMS) < cap(st.stepMS) {
		st.stepMS = append(st.stepMS, ms(s.took))
	}
	st.waits.add(s.exposed)
}

// warnLoss says once that the loss is not finite.
func (r *report) warnLoss(loss float64, step int) {
	if r.warned {
		return
	}
	r.warned = true
	ends := "the run continues, as in PyTorch, because train.max_skips is 0"
	if r.maxSkips > 0 {
		ends = fmt.Sprintf("the run ends after %d such steps in a row (train.max_skips)", r.maxSkips)
	}
	r.events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
		"the loss is %v at step %d; %s; lower optimizer.lr or clip with train.max_norm", loss, step, ends)})
}

// evaluation records and reports an evaluation at pos, by its totals over all ranks.
func (r *report) evaluation(pos position, totals *sums, took time.Duration) {
	e := event.EvalDone{
		Step: pos.Step, Epoch: pos.lastEpoch(), Samples: int(totals[sumRows]),
		Loss: totals[sumLoss] / totals[sumRows], Accuracy: -1, TookMS: ms(took),
	}
	r.evaluated = true
	r.metrics.set("eval.loss", e.Loss, pos.Step)
	if r.classes {
		e.Accuracy = totals[sumCorrect] / totals[sumRows]
		r.metrics.set("eval.accuracy", e.Accuracy, pos.Step)
	}
	r.events.Emit(&e)
}
