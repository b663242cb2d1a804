package sinks

import (
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// The summary of a stopped run has the steps that it took.
func TestAccountOfAnUnfinishedRun(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &Account{Began: began}
	at := began
	tell := func(rank int, e event.Event) {
		at = at.Add(100 * time.Millisecond)
		a.Emit(event.Record{Rank: rank, Time: at, Event: e})
	}
	tell(0, &event.DatasetOpened{Plugin: "mnist", Source: "idx", TrainSamples: 600, TestSamples: 100, Classes: []string{"cat", "dog"}})
	tell(0, &event.PluginStarted{Type: "backend", Name: "before a restart"})
	tell(0, &event.RunStarted{Restart: 1})
	tell(0, &event.PluginStarted{Type: "backend", Name: "tcp", SHA256: "00ff"})
	tell(0, &event.PlanMade{Buckets: 2, BytesPerStep: 1000})
	for step := 1; step <= 15; step++ {
		tell(0, &event.StepDone{Step: step, Epoch: 1, LossMean: 1 / float64(step), Samples: 20})
	}
	tell(1, &event.StepDone{Step: 99})
	tell(0, &event.EvalDone{Loss: 0.5, Accuracy: 0.75})
	s := a.SummaryOf("preempted", 1)
	if s.Status != "preempted" || s.Restarts != 1 || s.Steps != 15 || s.Epochs != 1 || s.Train.Loss != 1.0/15 || s.Dataset.TrainSamples != 600 ||
		s.Comm.Buckets != 2 || s.Comm.BytesPerStep != 1000 || s.Eval.Loss != 0.5 || *s.Eval.Accuracy != 0.75 {
		t.Errorf("%+v", s)
	}
	if len(s.Plugins) != 1 || s.Plugins[0].Name != "tcp" || s.Plugins[0].SHA256 != "00ff" || len(s.Dataset.Classes) != 2 {
		t.Errorf("%+v %+v", s.Plugins, s.Dataset)
	}
	if s.Time.ToFirstStepS != 0.6 || s.Time.TrainS != 1.4 || s.Train.SamplesPerSec != 200 {
		t.Errorf("%+v %+v", s.Time, s.Train)
	}
	if s := (&Account{Began: began}).SummaryOf("failed", 0); s.Steps != 0 || s.Eval != nil || s.Time.TrainS != 0 {
		t.Errorf("nothing happened: %+v", s)
	}
}
