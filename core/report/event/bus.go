package event

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"
)

// Sink receives records. Emit is cheap, does not block on a terminal or a network for
// long, and keeps no reference to the event, which the sender may reuse. An error of a
// sink never fails a run.
type Sink interface {
	Emit(Record)
	// Close writes buffered data. Emit is not called after it.
	Close() error
}

// Bus stamps events and passes each to every sink, in order, before Emit returns. It is
// safe for concurrent use.
type Bus struct {
	mu    sync.Mutex
	rank  int
	seq   uint64
	now   func() time.Time
	sinks []Sink
	line  encoder // of the current record

	files  []Sink // those of sinks that write the run's files
	outbox []byte // lines of events for the run's files, which another rank writes

	warned map[Warning]bool // in the run's files, or the outbox
}

// mostWarned is how many different warnings a bus remembers.
const mostWarned = 1000

// NewBus creates the bus of one sender; rank is its rank, or Launcher.
func NewBus(rank int, sinks ...Sink) *Bus {
	return &Bus{rank: rank, now: time.Now, sinks: sinks}
}

// Add appends a sink.
func (b *Bus) Add(s Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sinks = append(b.sinks, s)
}

// AddFile appends a sink that writes one of the run's files. It also gets what [Bus.Deliver] passes on.
func (b *Bus) AddFile(s Sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sinks, b.files = append(b.sinks, s), append(b.files, s)
}

// Emit sends an event. The caller may change e as soon as Emit returns.
func (b *Bus) Emit(e Event) {
	b.mu.Lock()
	b.seq++
	r := Record{Seq: b.seq, Time: b.now(), Rank: b.rank, Event: e}
	b.send(r)
	if again := b.warns(e); !again && len(b.files) == 0 && travels(e) {
		b.outbox = Append(b.outbox, r)
	}
	b.unlockAndReport()
}

// travels reports whether the rank with the run's files needs an event of another one: it has no such event of
// its own.
func travels(e Event) bool {
	switch e.(type) {
	case *PluginRestarted, *Warning:
		return true
	}
	return false
}

// warns notes a warning, and reports whether it has been noted before: many ranks may have the same one.
func (b *Bus) warns(e Event) (again bool) {
	w, ok := e.(*Warning)
	if !ok || b.warned[*w] || len(b.warned) >= mostWarned {
		return ok
	}
	if b.warned == nil {
		b.warned = map[Warning]bool{}
	}
	b.warned[*w] = true
	return false
}

// Outbox returns the lines of this rank's events that the rank with the run's files has to write: replaced
// plugins, and each warning once.
func (b *Bus) Outbox() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.outbox)
}

// Delivered removes the first n bytes of the outbox.
func (b *Bus) Delivered(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outbox = b.outbox[n:]
}

// Deliver passes lines of another rank's outbox on to the run's files. Lines of unknown events are dropped, and
// warnings that the files have already.
func (b *Bus) Deliver(lines []byte) {
	for line := range bytes.Lines(lines) {
		r, err := Decode(line)
		if err != nil {
			continue
		}
		b.mu.Lock()
		if !b.warns(r.Event) {
			for _, s := range b.files {
				s.Emit(r)
			}
		}
		b.unlockAndReport()
	}
}

// Relay passes on a record of another sender unchanged.
func (b *Bus) Relay(r Record) {
	b.mu.Lock()
	b.send(r)
	b.unlockAndReport()
}

// send encodes a record once for all sinks that write lines.
func (b *Bus) send(r Record) {
	b.line.b = b.line.b[:0]
	for _, s := range b.sinks {
		j, ok := s.(*JSONLines)
		if !ok {
			s.Emit(r)
			continue
		}
		if len(b.line.b) == 0 {
			b.line.record(r)
		}
		j.emitLine(r, b.line.b)
	}
}

// unlockAndReport unlocks the bus and lets sinks report their errors, possibly with Emit.
func (b *Bus) unlockAndReport() {
	var tell []func()
	for _, s := range b.sinks {
		if r, ok := s.(interface{ report() func() }); ok {
			if f := r.report(); f != nil {
				tell = append(tell, f)
			}
		}
	}
	b.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// trouble holds a sink's error until the bus can report it.
type trouble struct {
	tell func(error)
	err  error
}

func (t *trouble) happened(err error) { t.err = err }

func (t *trouble) report() func() {
	err, tell := t.err, t.tell
	t.err = nil
	if err == nil || tell == nil {
		return nil
	}
	return func() { tell(err) }
}

// Close closes all sinks and returns their errors joined. Later events are dropped.
func (b *Bus) Close() error {
	b.mu.Lock()
	sinks := b.sinks
	b.sinks, b.files = nil, nil
	b.mu.Unlock()
	var errs []error
	for _, s := range sinks {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Func is a function as a sink, for tests and small uses.
type Func func(Record)

// Emit calls f.
func (f Func) Emit(r Record) { f(r) }

// Close does nothing.
func (f Func) Close() error { return nil }
