package event

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/afero"
)

// JSONLines writes one object per line. The first failed write is reported
// through warn, once; after it the sink is silent and the run goes on. warn is
// called by the Bus outside of its Emit, so it may emit an event itself.
type JSONLines struct {
	w     io.Writer
	close func() error
	line  encoder
	dead  bool
	warn  trouble
}

// NewJSONLines writes to w, for example standard output for --events json.
// warn may be nil. Close does not close w.
func NewJSONLines(w io.Writer, warn func(error)) *JSONLines {
	return &JSONLines{w: w, warn: trouble{tell: warn}, close: func() error { return nil }}
}

// OpenJSONLines appends to a file, so that a restarted run continues it.
func OpenJSONLines(fsys afero.Fs, path string, warn func(error)) (*JSONLines, error) {
	f, err := fsys.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return &JSONLines{w: f, warn: trouble{tell: warn}, close: f.Close}, nil
}

// Emit writes the record's line with a single Write.
func (j *JSONLines) Emit(r Record) {
	if j.dead {
		return
	}
	j.line.b = j.line.b[:0]
	j.line.record(r)
	if _, err := j.w.Write(j.line.b); err != nil {
		j.dead = true
		j.warn.happened(fmt.Errorf("events are no longer written: %w", err))
	}
}

func (j *JSONLines) report() func() { return j.warn.report() }

// Close closes the file.
func (j *JSONLines) Close() error { return j.close() }

var _ Sink = (*JSONLines)(nil)
