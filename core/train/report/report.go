package report

import (
	"fmt"
	"math"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/metric"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/passes"
)

// warmup steps are left out of throughput and step times.
const warmup = 10

// Report emits the events of steps and evaluations, and collects statistics for the
// summary.
type Report struct {
	Events   *event.Bus
	Started  time.Time // of the launcher's process
	Classes  bool      // targets are classes: there is an accuracy
	Scaled   bool      // the loss has a scale
	MaxSkips int       // train.max_skips

	Init *event.ModelInit // where the weights of a new run come from; nil: from the usual initialisation

	Tokens    int   // targets of a sample where they are per position; 0: one per sample
	TestBytes int64 // of text, in the test split; 0: unknown
	Chosen    metric.Config

	Stats     Stats
	Metrics   Metrics
	Planning  time.Duration   // how long planning took
	done      event.StepDone  // reused
	warned    bool            // that the loss is not finite
	evaluated *event.EvalDone // the last in this process; metrics may be a checkpoint's
}

// Stats is the data from which the summary is computed. Slices have their full capacity from the
// start: a step does not allocate.
type Stats struct {
	Begin, End time.Time
	firstStep  time.Duration // since Report.Started; 0 until there was one
	mark       time.Time     // end of the last warm-up step
	samples    float64       // over all ranks, since mark
	steps      int           // in this process
	stepMS     []float64
	waits      waits
	last       time.Time // end of the last step
	LossMean   float64
}

// NewStats allocates the statistics of a run of that many steps.
func NewStats(steps int) Stats {
	return Stats{stepMS: make([]float64, 0, min(steps, 1<<20)), waits: newWaits()}
}

// Step is a step that has ended.
type Step struct {
	Pos     outline.Position // after it
	Own     passes.Measures
	Totals  *agreement.Totals // over all ranks
	Active  int               // ranks that had data
	LR      float64
	Norm    float64 // of the gradients
	Skipped bool
	Scale   float64 // of the next step's loss
	Took    time.Duration
	Exposed time.Duration // communication, while this rank waited
}

// Step records and reports a step.
func (r *Report) Step(s Step) {
	loss := s.Totals[agreement.SumLoss] / float64(s.Active)
	r.Stats.add(s, loss, r.Started)
	r.Metrics.Set("train.loss", loss, s.Pos.Step)
	r.done = event.StepDone{
		Step: s.Pos.Step, Epoch: s.Pos.Epoch, Loss: s.Own.Loss, LossMean: loss, Accuracy: -1, LR: s.LR,
		StepMS: event.Millis(s.Took), DataMS: event.Millis(s.Own.Data), CommMS: event.Millis(s.Exposed),
		Samples: int(s.Totals[agreement.SumRows]), SamplesPerSec: s.Totals[agreement.SumRows] / s.Took.Seconds(),
		GradNorm: s.Norm, Skipped: s.Skipped,
	}
	r.done.Tokens = r.Tokens * r.done.Samples
	r.done.TokensPerSec = float64(r.Tokens) * r.done.SamplesPerSec
	if r.Classes && s.Totals[agreement.SumCounted] > 0 {
		r.done.Accuracy = s.Totals[agreement.SumCorrect] / s.Totals[agreement.SumCounted]
	}
	if r.Scaled {
		r.done.Scale = s.Scale
	}
	r.Events.Emit(&r.done)
	if !event.Number(loss).Finite() {
		r.warnLoss(loss, s.Pos.Step)
	}
}

func (st *Stats) add(s Step, loss float64, started time.Time) {
	now := time.Now()
	st.steps++
	if st.steps == 1 {
		st.firstStep = now.Sub(started)
	}
	st.last, st.LossMean = now, loss
	if st.steps <= warmup {
		st.mark = now
		return
	}
	st.samples += s.Totals[agreement.SumRows]
	if len(st.stepMS) < cap(st.stepMS) {
		st.stepMS = append(st.stepMS, event.Millis(s.Took))
	}
	st.waits.add(s.Exposed)
}

// warnLoss warns once that the loss is not finite.
func (r *Report) warnLoss(loss float64, step int) {
	if r.warned {
		return
	}
	r.warned = true
	ends := "the run continues, as in PyTorch, because train.max_skips is 0"
	if r.MaxSkips > 0 {
		ends = fmt.Sprintf("the run ends after %d such steps in a row (train.max_skips)", r.MaxSkips)
	}
	r.Events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
		"the loss is %v at step %d; %s; lower optimizer.lr or clip with train.max_norm", loss, step, ends)})
}

// Evaluation records and reports an evaluation at pos, by its totals over all ranks. detail holds
// the metrics' counts, and Evaluation fills in the rest; nil if no metric counted.
func (r *Report) Evaluation(pos outline.Position, totals *agreement.Totals, detail *event.Evaluation, took time.Duration) {
	counted := totals[agreement.SumCounted]
	e := &event.EvalDone{
		Step: pos.Step, Epoch: pos.LastEpoch(), Samples: int(counted),
		Loss: totals[agreement.SumLoss] / counted, Accuracy: -1, TookMS: event.Millis(took),
	}
	r.evaluated = e
	r.Metrics.Set("eval.loss", e.Loss, pos.Step)
	if r.Classes && r.Chosen.Has(metric.Accuracy) {
		e.Accuracy = totals[agreement.SumCorrect] / counted
		r.Metrics.Set("eval.accuracy", e.Accuracy, pos.Step)
	}
	if r.Tokens > 0 {
		e.Samples, e.Tokens = int(totals[agreement.SumRows]), int(counted)
	}
	if r.Tokens > 0 && r.Chosen.Has(metric.Perplexity) {
		e.Perplexity = math.Exp(e.Loss)
		r.Metrics.Set("eval.perplexity", e.Perplexity, pos.Step)
	}
	if r.TestBytes > 0 && r.Chosen.Has(metric.BitsPerByte) {
		e.BitsPerByte = totals[agreement.SumLoss] / math.Ln2 / float64(r.TestBytes)
		r.Metrics.Set("eval.bits_per_byte", e.BitsPerByte, pos.Step)
	}
	if detail != nil {
		r.detail(e, detail)
	}
	r.Events.Emit(e)
}

// detail completes the details of an evaluation, and adds to its event what fits there.
func (r *Report) detail(e *event.EvalDone, d *event.Evaluation) {
	d.Step, d.Epoch, d.Samples, d.Loss, d.Accuracy = e.Step, e.Epoch, e.Samples, event.Number(e.Loss), e.Summary().Accuracy
	m := d.EvalMetrics
	if len(m.PerClass) > event.MaxClasses {
		m.PerClass = nil
	}
	if m.TopK > 0 {
		r.Metrics.Set("eval.top_k_accuracy", float64(m.TopKAccuracy), e.Step)
	}
	if m.TopK > 0 || m.PerClass != nil {
		e.Metrics = &m
	}
}

// Summarize fills in what the report knows of the run: training, times, the last evaluation.
func (r *Report) Summarize(s *event.Summary) {
	st := &r.Stats
	s.Init = r.Init
	s.Train.Loss = event.Number(st.LossMean) // of the checkpoint, if no step was left to do
	if st.steps > 0 {
		s.Time.ToFirstStepS = event.Number(st.firstStep.Seconds())
	}
	if wall := st.last.Sub(st.mark).Seconds(); st.steps > warmup && wall > 0 {
		s.Train.SamplesPerSec = event.Number(st.samples / wall)
		s.Train.TokensPerSec = event.Number(float64(r.Tokens) * st.samples / wall)
	}
	s.Train.StepMSP50, s.Train.StepMSP99 = quantile(st.stepMS, 0.5), quantile(st.stepMS, 0.99)
	s.Time.TrainS = event.Number(st.End.Sub(st.Begin).Seconds())
	if r.evaluated != nil {
		s.Eval = r.evaluated.Summary()
	}
}

// Waits are this rank's of the last steps, in milliseconds, as float32.
func (r *Report) Waits() []byte { return tensor.Bytes(r.Stats.waits.last()) }
