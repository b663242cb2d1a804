package train

import (
	"math"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// reported is a report and the events of it.
func reported(r report) (*report, *[]event.Event) {
	var all []event.Event
	r.events = event.NewBus(0)
	r.events.Add(event.Func(func(rec event.Record) {
		if e, ok := rec.Event.(*event.StepDone); ok {
			done := *e // reused
			all = append(all, &done)
			return
		}
		all = append(all, rec.Event)
	}))
	r.metrics, r.stats = metrics{}, newStats(100)
	return &r, &all
}

func stepOf(n int, loss float64) stepResult {
	return stepResult{
		pos: position{Step: n}, own: measures{loss: 3, data: time.Millisecond}, active: 2,
		totals: &sums{sumLoss: 2 * loss, sumCorrect: 6, sumCounted: 8, sumRows: 10},
		lr:     0.1, norm: 2, scale: 4, took: 20 * time.Millisecond, exposed: 5 * time.Millisecond,
	}
}

// A step's event has the means over the ranks that had data, an accuracy where
// targets are classes, and a scale where the loss has one.
func TestReportOfAStep(t *testing.T) {
	r, all := reported(report{classes: true, scaled: true})
	r.step(stepOf(7, 1.5))
	want := event.StepDone{
		Step: 7, Loss: 3, LossMean: 1.5, Accuracy: 0.75, LR: 0.1, StepMS: 20, DataMS: 1, CommMS: 5,
		Samples: 10, SamplesPerSec: 500, GradNorm: 2, Scale: 4,
	}
	if got := (*all)[0].(*event.StepDone); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if m := r.metrics["train.loss"]; m.value != 1.5 || m.step != 7 {
		t.Errorf("the loss is %+v", m)
	}
	r, all = reported(report{})
	r.step(stepOf(1, 1))
	if got := (*all)[0].(*event.StepDone); got.Accuracy != -1 || got.Scale != 0 {
		t.Errorf("regression without a scale: %+v", *got)
	}
}

// The first steps are warm-up: they count in no statistics but the loss.
func TestStatisticsLeaveOutTheWarmUp(t *testing.T) {
	r, _ := reported(report{started: time.Now().Add(-time.Hour)})
	for n := range warmup + 3 {
		r.step(stepOf(n+1, float64(n)))
	}
	st := &r.stats
	if st.steps != warmup+3 || st.samples != 30 || len(st.stepMS) != 3 || len(st.waits.last()) != 3 || st.lossMean != warmup+2 || st.firstStep < time.Hour || st.last.Before(st.mark) {
		t.Errorf("statistics are %d steps, %v samples, %v ms, loss %v, first step after %v", st.steps, st.samples, st.stepMS, st.lossMean, st.firstStep)
	}
}

// A loss that is not finite is warned of once.
func TestLossWithoutAValueIsWarnedOfOnce(t *testing.T) {
	r, all := reported(report{maxSkips: 3})
	for n := range 3 {
		r.step(stepOf(n+1, math.NaN()))
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
	r, all := reported(report{classes: true})
	r.evaluation(position{Step: 9, Epoch: 1}, &sums{sumLoss: 5, sumCorrect: 5, sumRows: 10}, time.Second)
	if e := (*all)[0].(*event.EvalDone); e.Step != 9 || e.Epoch != 0 || e.Samples != 10 || e.Loss != 0.5 || e.Accuracy != 0.5 || e.TookMS != 1000 {
		t.Errorf("got %+v", e)
	}
	if !r.evaluated || r.metrics.value("eval.loss") != 0.5 || r.metrics.value("eval.accuracy") != 0.5 {
		t.Errorf("metrics are %v", r.metrics)
	}
}
