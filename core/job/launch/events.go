package launch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// eventInterval is how long events may wait to be read together. Displays of a run are not
// updated more often.
const eventInterval = 25 * time.Millisecond

// eventReader reads at most once per eventInterval, so that the launcher does not wake up for
// every line on a core that its ranks compute on. It does not delay the first
// read after a pause, nor the rest of what did not fit into the buffer.
type eventReader struct {
	r    io.Reader
	last time.Time
	more bool
}

func (c *eventReader) Read(b []byte) (int, error) {
	if rest := eventInterval - time.Since(c.last); rest > 0 && !c.more {
		time.Sleep(rest)
	}
	n, err := c.r.Read(b)
	c.last, c.more = time.Now(), n == len(b)
	return n, err
}

func (l *launcher) event(rank int, line []byte) {
	l.events.Lock()
	defer l.events.Unlock()
	l.o.OnEvent(rank, line)
}

// note keeps what a line reports: the rank's step or phase (as text, parsed only
// if the rank fails), that its work is done, or why it ends.
func (w *worker) note(line []byte, o Options) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Finished != nil && o.Finished(line) {
		w.ready = true
	}
	if o.Account != nil {
		a := o.Account(line)
		w.account = Account{Plugin: cmp.Or(w.account.Plugin, a.Plugin), Refusal: cmp.Or(w.account.Refusal, a.Refusal)}
	}
	if bytes.Contains(line, []byte(`"step":`)) {
		w.step = append(w.step[:0], line...)
	}
	if bytes.Contains(line, []byte(`"phase":`)) {
		w.phase = append(w.phase[:0], line...)
	}
}

func (w *worker) finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready
}

// why is what the rank reported about its end.
func (w *worker) why() Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account
}

// hasReported reports whether the rank has sent a step or phase: from then on it catches
// signals.
func (w *worker) hasReported() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.phase) > 0 || len(w.step) > 0
}

// place is the last step and phase that a rank reported; -1 and "" if it never did.
func (w *worker) place() (step int64, phase string) {
	w.mu.Lock()
	step0, phase0 := slices.Clone(w.step), slices.Clone(w.phase)
	w.mu.Unlock()
	var s struct{ Step *int64 }
	if json.Unmarshal(step0, &s) != nil || s.Step == nil {
		s.Step = new(int64)
		*s.Step = -1
	}
	var p struct{ Phase string }
	if json.Unmarshal(phase0, &p) != nil {
		p.Phase = ""
	}
	return *s.Step, p.Phase
}
