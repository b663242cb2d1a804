package event

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/appendfile"
)

const (
	// gather is how long step events wait to be written together. Only events of
	// steps shorter than this wait.
	gather = 10 * time.Millisecond
	// gathered is the maximum size of one write in bytes, unless a single line is longer.
	gathered = 32 << 10
)

// JSONLines writes one object per line. Events are written as they come, but
// steps that follow each other within [gather] are written together: a write
// for each costs more than a small model's step. A failed write is reported through
// warn and the run continues. The sink continues when writing works again, with a
// warning event in place of the missing ones; when its reader is gone it stops. The Bus
// calls warn outside of its Emit, so warn may emit an event itself.
type JSONLines struct {
	mu      sync.Mutex
	out     *appendfile.File
	close   func() error
	lines   encoder   // not yet written
	written time.Time // when, by the time of the event that was written last
	later   *time.Timer
	armed   bool // later will write
	dead    bool
	warn    trouble
}

// NewJSONLines writes to w, for example standard output for --events json.
// warn may be nil. Close does not close w.
func NewJSONLines(w io.Writer, warn func(error)) *JSONLines {
	return &JSONLines{out: appendfile.New(w, missing), warn: trouble{tell: warn}, close: func() error { return nil }}
}

// OpenJSONLines appends to a file, so that a restarted run continues it.
func OpenJSONLines(fsys afero.Fs, path string, warn func(error)) (*JSONLines, error) {
	out, file, err := appendfile.Open(fsys, path, false, missing)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return &JSONLines{out: out, warn: trouble{tell: warn}, close: file.Close}, nil
}

// missing is the event that replaces those that could not be written.
func missing(lost int, cause error) string {
	var e encoder
	e.record(Record{Time: time.Now(), Rank: Launcher, Event: &Warning{Source: "events", Message: appendfile.Missing("events", lost, cause)}})
	return strings.TrimSuffix(string(e.b), "\n")
}

// Emit writes the record's line, and those waiting before it, in a single Write, or
// queues it.
func (j *JSONLines) Emit(r Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dead {
		j.lines.record(r)
		j.due(r)
	}
}

// emitLine is Emit for a record that is already encoded.
func (j *JSONLines) emitLine(r Record, line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dead {
		j.lines.b = append(j.lines.b, line...)
		j.due(r)
	}
}

// due writes the queued lines, now or soon; mu is held.
func (j *JSONLines) due(r Record) {
	_, step := r.Event.(*StepDone)
	if !step || len(j.lines.b) >= gathered || r.Time.Sub(j.written) >= gather {
		j.write(r.Time)
		return
	}
	if j.armed {
		return
	}
	j.armed = true
	if j.later == nil {
		j.later = time.AfterFunc(gather, j.timeIsUp)
		return
	}
	j.later.Reset(gather)
}

func (j *JSONLines) timeIsUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.armed = false
	j.write(time.Now())
}

// write writes the queued lines; mu is held.
func (j *JSONLines) write(now time.Time) {
	if j.dead || len(j.lines.b) == 0 {
		return
	}
	j.written = now
	err := j.out.Append(j.lines.b, bytes.Count(j.lines.b, []byte{'\n'}))
	switch {
	case err == nil:
	case appendfile.Gone(err):
		j.dead = true
		j.warn.happened(fmt.Errorf("events are no longer written: %w", err))
	default:
		j.warn.happened(fmt.Errorf("events are not written until there is disk space: %w", err))
	}
	j.lines.b = j.lines.b[:0]
}

func (j *JSONLines) report() func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.warn.report()
}

// Close writes the queued lines and closes the file.
func (j *JSONLines) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(time.Now())
	if !j.dead {
		j.out.Flush()
	}
	j.dead = true
	if j.later != nil {
		j.later.Stop()
	}
	return j.close()
}

// Dropped is the line that replaces events for which a reader was too slow; it is the
// notice of a lossy.Writer. rank is the sender of the events. Their sequence numbers
// show which are missing.
func Dropped(rank int) func(lines int) []byte {
	return func(lines int) []byte {
		return Append(nil, Record{Time: time.Now(), Rank: rank, Event: &Warning{Source: "events",
			Message: fmt.Sprintf("%d events are missing here because the reader was too slow; the run's events.jsonl has those of rank 0", lines)}})
	}
}

var _ Sink = (*JSONLines)(nil)
