package app

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/report/event"
)

// remarks puts events into the ranks' logs: what their plugins logged, their
// warnings, and in rank 0's log the progress of the run, so that trainctl logs
// --follow shows a healthy run too. The terminal leaves out some of it, of ranks
// above 0.
type remarks struct {
	mu    sync.Mutex
	lines event.Lines
}

// of is what belongs into the log of the rank that wrote the line of an event,
// "" for nothing.
func (m *remarks) of(line []byte) string {
	if event.KindOf(line) == stepKind && !bytes.Contains(line, []byte(`,"rank":0,`)) {
		return "" // the many, unread
	}
	r, err := event.Decode(line)
	if err != nil {
		return "" // of a newer version, or cut off by a crash
	}
	return m.record(r)
}

// record is of, of a record.
func (m *remarks) record(r event.Record) string {
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
