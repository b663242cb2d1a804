package report

import (
	"math"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/passes"
)

// reported is a report and the events of it.
func reported(r Report) (*Report, *[]event.Event) {
	var all []event.Event
	r.Events = event.NewBus(0)
	r.Events.Add(event.Func(func(rec event.Record) {
		if e, ok := rec.Event.(*event.StepDone); ok {
			done := *e // reused
			all = append(all, &done)
			return
		}
		all = append(all, rec.Event)
	}))
	r.Metrics, r.Stats = Metrics{}, NewStats(100)
	return &r, &all
}

func stepOf(n int, loss float64) Step {
	return Step{
		Pos: outline.Position{Step: n}, Own: passes.Measures{Loss: 3, Data: time.Millisecond}, Active: 2,
		Totals: &agreement.Totals{agreement.SumLoss: 2 * loss, agreement.SumCorrect: 6, agreement.SumCounted: 8, agreement.SumRows: 10},
		LR:     0.1, Norm: 2, Scale: 4, Took: 20 * time.Millisecond, Exposed: 5 * time.Millisecond,
	}
}

// A step's event has the means over the ranks that had data, an accuracy where
// targets are classes, and a scale where the loss has one.
func TestReportOfAStep(t *testing.T) {
	r, all := reported(Report{Classes: true, Scaled: true})
	r.Step(stepOf(7, 1.5))
	want := event.StepDone{
		Step: 7, Loss: 3, LossMean: 1.5, Accuracy: 0.75, LR: 0.1, StepMS: 20, DataMS: 1, CommMS: 5,
		Samples: 10, SamplesPerSec: 500, GradNorm: 2, Scale: 4,
	}
	if got := (*all)[0].(*event.StepDone); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if m := r.Metrics["train.loss"]; m.Value != 1.5 || m.Step != 7 {
		t.Errorf("the loss is %+v", m)
	}
	r, all = reported(Report{})
	r.Step(stepOf(1, 1))
	if got := (*all)[0].(*event.StepDone); got.Accuracy != -1 || got.Scale != 0 {
		t.Errorf("regression without a scale: %+v", *got)
	}
}

// The first steps are warm-up: they count in no statistics but the loss.
func TestStatisticsLeaveOutTheWarmUp(t *testing.T) {
	r, _ := reported(Report{Started: time.Now().Add(-time.Hour)})
	for n := range warmup + 3 {
		r.Step(stepOf(n+1, float64(n)))
	}
	st := &r.Stats
	if st.steps != warmup+3 || st.samples != 30 || len(st.stepMS) != 3 || len(st.waits.last()) != 3 || st.LossMean != warmup+2 || st.firstStep < time.Hour || st.last.Before(st.mark) {
		t.Errorf("statistics are %d steps, %v samples, %v ms, loss %v, first step after %v", st.steps, st.samples, st.stepMS, st.LossMean, st.firstStep)
	}
}

// A loss that is not finite is warned of once.
func TestLossWithoutAValueIsWarnedOfOnce(t *testing.T) {
	r, all := reported(Report{MaxSkips: 3})
	for n := range 3 {
		r.Step(stepOf(n+1, math.NaN()))
	}
	warnings := 0
	for _, e := range *all {
		if w, ok := e.(*event.Warning); ok {
			warnings++
			if want := "the loss is NaN at step 1; the run ends after 3 such steps in a row (train.max_skips); lower optimizer.lr or clip with train.max_norm"; w.Message != want {
				t.Errorf("warned %q", w.Message)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
}

func TestReportOfAnEvaluation(t *testing.T) {
	r, all := reported(Report{Classes: true})
	r.Evaluation(outline.Position{Step: 9, Epoch: 1}, &agreement.Totals{agreement.SumLoss: 5, agreement.SumCorrect: 5, agreement.SumCounted: 10, agreement.SumRows: 12}, nil, time.Second)
	if e := (*all)[0].(*event.EvalDone); e.Step != 9 || e.Epoch != 0 || e.Samples != 10 || e.Loss != 0.5 || e.Accuracy != 0.5 || e.TookMS != 1000 {
		t.Errorf("got %+v", e)
	}
	if r.evaluated == nil || r.Metrics.Value("eval.loss") != 0.5 || r.Metrics.Value("eval.accuracy") != 0.5 {
		t.Errorf("metrics are %v", r.Metrics)
	}
}

// A loss per token comes with perplexity, and where the bytes of the text are known with bits
// per byte; throughput is in tokens, too.
func TestReportOfTokens(t *testing.T) {
	r, all := reported(Report{Classes: true, Tokens: 64, TestBytes: 1000})
	r.Step(stepOf(7, 1.5))
	if got := (*all)[0].(*event.StepDone); got.Samples != 10 || got.Tokens != 640 || got.TokensPerSec != 64*got.SamplesPerSec {
		t.Errorf("step %+v", *got)
	}
	r.Evaluation(outline.Position{Step: 7, Epoch: 1}, &agreement.Totals{agreement.SumLoss: 800, agreement.SumCorrect: 100, agreement.SumCounted: 400, agreement.SumRows: 7}, nil, time.Second)
	e := (*all)[1].(*event.EvalDone)
	if e.Samples != 7 || e.Tokens != 400 || e.Loss != 2 || e.Accuracy != 0.25 || e.Perplexity != math.Exp(2) || math.Abs(e.BitsPerByte-0.8/math.Ln2) > 1e-15 {
		t.Errorf("evaluation %+v", *e)
	}
	var s event.Summary
	r.Summarize(&s)
	if s.Eval == nil || float64(s.Eval.Perplexity) != e.Perplexity || float64(s.Eval.BitsPerByte) != e.BitsPerByte || *s.Eval.Accuracy != 0.25 {
		t.Errorf("summary %+v", s.Eval)
	}
}
