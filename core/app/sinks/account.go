package sinks

import (
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// Account collects the events that the summary of a failed run needs, because ranks write
// a summary only at the end of a run. It is a sink of the launcher, or of rank 0 if another
// launcher started it.
type Account struct {
	Began   time.Time // start of the launcher's process
	summary event.Summary

	first, mark, last time.Time // steps of rank 0: the first, the last of the warm-up, the last
	counted           int       // steps since the start or a restart
	samples, tokens   int       // over all ranks, since mark
}

// warmup steps are left out of throughput, as in the ranks' own summary.
const warmup = 10

// Emit records rank 0's events.
func (a *Account) Emit(r event.Record) {
	if r.Rank != 0 {
		return
	}
	s := &a.summary
	switch e := r.Event.(type) {
	case *event.DatasetOpened:
		s.Dataset = event.DatasetSummary{Plugin: e.Plugin, Source: e.Source, TrainSamples: e.TrainSamples, TestSamples: e.TestSamples, Validation: e.Validation, Classes: e.Classes}
	case *event.ModelInit:
		s.Init = e
	case *event.PluginStarted:
		s.Plugins = append(s.Plugins, *e)
	case *event.RunStarted: // also after a restart of the ranks
		s.Plugins, s.Continues = nil, e.Continues
		s.Name, s.WorldSize, s.Device, s.Backend, s.Precision = e.Name, e.WorldSize, e.Device, e.Backend, e.Precision
	case *event.PlanMade:
		s.Comm.Buckets, s.Comm.BytesPerStep = e.Buckets, e.BytesPerStep
		a.counted, a.samples, a.tokens = 0, 0, 0
	case *event.StepDone:
		s.Steps, s.Epochs, s.Train.Loss = e.Step, e.Epoch, event.Number(e.LossMean)
		a.step(r.Time, e)
	case *event.EvalDone:
		s.Eval = e.Summary()
	}
}

func (a *Account) step(at time.Time, e *event.StepDone) {
	a.counted++
	a.last = at
	if a.first.IsZero() {
		a.first = at
		a.summary.Time.ToFirstStepS = event.Number(at.Sub(a.Began).Seconds())
	}
	if a.counted <= warmup {
		a.mark = at
		return
	}
	a.samples += e.Samples
	a.tokens += e.Tokens
}

// Close does nothing.
func (a *Account) Close() error { return nil }

// SummaryOf returns the summary of a run that ended with this status; the caller adds the rest.
func (a *Account) SummaryOf(status string, restarts int) event.Summary {
	s := a.summary
	s.Status, s.Restarts = status, restarts
	s.Time.TrainS = event.Number(a.last.Sub(a.first).Seconds())
	s.Time.TotalS = event.Number(time.Since(a.Began).Seconds())
	if span := a.last.Sub(a.mark).Seconds(); a.counted > warmup && span > 0 {
		s.Train.SamplesPerSec = event.Number(float64(a.samples) / span)
		s.Train.TokensPerSec = event.Number(float64(a.tokens) / span)
	}
	return s
}
