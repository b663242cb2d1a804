package observer

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// Plugin is an observer of a run.
type Plugin struct {
	Name         string        // as in the configuration
	CloseTimeout time.Duration // how long the end of the run waits for it
	// Start starts it and opens it for the run. It is called from a goroutine of its own.
	Start func(context.Context) (Instance, error)
}

// Instance is an observer that was started; calls are made one at a time.
type Instance interface {
	// Observe delivers lines of events.jsonl, the number of events that were dropped before
	// them, and at the end of the run the text of summary.json.
	Observe(ctx context.Context, lines [][]byte, dropped int, summary []byte) error
	// Gone reports, after an error, whether later calls will fail, too.
	Gone() bool
	// Close ends it; when ctx ends, at once.
	Close(ctx context.Context) error
}

// Sink passes the events of a run to its observers. It is a sink of the launcher's bus, or of
// rank 0's under another launcher. The observers start with the first event of rank 0, so that
// in a job of several hosts only those of rank 0's host do.
type Sink struct {
	feeds []*feed
	names map[string]bool

	mu      sync.Mutex
	started bool
}

// New returns the sink of some observers; nil without any, which can be used all the same.
// warn reports that the run goes on without one of them.
func New(plugins []Plugin, warn func(plugin, text string)) *Sink {
	if len(plugins) == 0 {
		return nil
	}
	s := &Sink{names: map[string]bool{}}
	for _, p := range plugins {
		s.feeds = append(s.feeds, newFeed(p, warn))
		s.names[p.Name] = true
	}
	return s
}

// Emit implements event.Sink. It never waits.
func (s *Sink) Emit(r event.Record) {
	if s == nil {
		return
	}
	if e, ok := r.Event.(*event.PluginLog); ok && s.names[e.Plugin] {
		return // an observer that prints a line for each batch would keep itself busy
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started && r.Rank != 0 {
		return
	}
	line := bytes.TrimSuffix(event.Append(nil, r), []byte("\n"))
	_, step := r.Event.(*event.StepDone)
	for _, f := range s.feeds {
		if !s.started {
			go f.run()
		}
		f.add(line, step)
	}
	s.started = true
}

// Close implements event.Sink. It does nothing: the run may still have events when its bus is
// closed. See End.
func (s *Sink) Close() error { return nil }

// Missed is what an observer did not get.
type Missed struct {
	Plugin string
	Events int
	Of     int // events of the run
	Why    string
	Warned bool // of the reason, already
}

func (m Missed) String() string {
	why := ": " + m.Why
	if m.Warned {
		why = ", for the reason of the warning above"
	}
	return fmt.Sprintf("observer plugin %q missed %d of %d events%s", m.Plugin, m.Events, m.Of, why)
}

// End delivers what is left and the text of summary.json, nil if there is none, and ends the
// observers: all at the same time, each within its CloseTimeout. It returns what they missed.
func (s *Sink) End(summary []byte) (missed []Missed) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	started := s.started
	s.started = true // too late for a start
	s.mu.Unlock()
	if !started {
		return nil
	}
	for _, f := range s.feeds {
		defer f.end(summary).Stop()
	}
	for _, f := range s.feeds {
		<-f.done
		if m := f.missed(); m.Events > 0 {
			missed = append(missed, m)
		}
	}
	return missed
}

var _ event.Sink = (*Sink)(nil)
