package launch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// lull is how long events may wait to be read together: what shows a run to
// people is no faster.
const lull = 25 * time.Millisecond

// calm reads no more often than once in a lull, so that a launcher is not woken
// for every line on a core that its ranks compute on. What comes after a pause
// is read at once, and so is what is left after a buffer was filled.
type calm struct {
	r    io.Reader
	last time.Time
	more bool
}

func (c *calm) Read(b []byte) (int, error) {
	if rest := lull - time.Since(c.last); rest > 0 && !c.more {
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

// note keeps the lines that tell where a rank was, which are parsed only if it
// fails, that its work is done, and why it ends.
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

// why is what the rank said of its end.
func (w *worker) why() Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account
}

// told reports whether the rank has told of itself: it catches signals then.
func (w *worker) told() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.phase) > 0 || len(w.step) > 0
}

// place is the last step and phase a rank told of; -1 and "" if it never did.
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
