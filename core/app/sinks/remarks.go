package sinks

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/report/event"
)

// stepDone is the kind of the event of a step.
var stepDone = (*event.StepDone)(nil).Kind()

// Remarks writes events into the ranks' logs: log records of plugins, warnings, and in
// rank 0's log the progress of the run, so that trainctl logs --follow also shows
// progress. The terminal omits some of it for ranks above 0.
type Remarks struct {
	mu    sync.Mutex
	lines event.Lines
}

// Of returns the log lines for the line of an event, "" for none.
func (m *Remarks) Of(line []byte) string {
	if event.KindOf(line) == stepDone && !bytes.Contains(line, []byte(`,"rank":0,`)) {
		return "" // most events, skipped without decoding
	}
	r, err := event.Decode(line)
	if err != nil {
		return "" // of a newer version, or cut off by a crash
	}
	return m.record(r)
}

// record returns the log lines for a decoded record.
func (m *Remarks) record(r event.Record) string {
	switch e := r.Event.(type) {
	case *event.PluginLog:
		if e.Total > 0 {
			return "" // progress of a download
		}
		return fmt.Sprintf("%s %s: %s", e.Level, e.Plugin, e.Message)
	case *event.Refused: // which the rank leaves to its launcher to show
		return "error: " + e.Message
	case *event.Warning:
		return fmt.Sprintf("warn %s: %s", e.Source, e.Message)
	}
	if r.Rank != 0 {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.lines.Of(r), "\n")
}
