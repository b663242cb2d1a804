package host

import (
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// flightRecord reads what a plugin did last out of the control arena, and
// keeps it when the arena is unmapped.
type flightRecord struct {
	mu     sync.Mutex
	closed bool
	kept   []shm.Flight
}

// flights are the last n operations; the ring may be nil.
func (f *flightRecord) flights(ring *shm.Submitter, n int) []shm.Flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return f.kept[max(0, len(f.kept)-n):]
	}
	if ring == nil {
		return nil
	}
	return ring.Flights(n)
}

// close comes before the arena is unmapped.
func (f *flightRecord) close(ring *shm.Submitter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.kept, f.closed = ring.Flights(shm.Flights), true
	}
}

// last says how far the plugin came: the oldest operation in flight, or the
// last one if none is.
func (f *flightRecord) last(ring *shm.Submitter) string {
	all := f.flights(ring, shm.Slots)
	for i := range all {
		if all[i].Ended.IsZero() {
			return describeFlight(&all[i], time.Now())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return describeFlight(&all[len(all)-1], time.Now())
}

// overdue is what a plugin was given and has not ended for at least so long, "" if
// nothing.
func (p *plugin) overdue(after time.Duration) string {
	if p == nil {
		return ""
	}
	now, all := time.Now(), p.record.flights(p.ring, shm.Slots)
	for i := range all {
		f := &all[i]
		if f.Ended.IsZero() && now.Sub(f.Enqueued) >= after {
			return fmt.Sprintf("%s plugin %q: %s has not ended", p.proc.kind, p.proc.name, operationName(f.Op, f.Seq))
		}
	}
	return ""
}

// Overdue says which batch the plugin was asked for at least so long ago and has
// not given yet; "" if there is none, or without shared memory.
func (d *Dataset) Overdue(after time.Duration) string { return d.proc.overdue(after) }

// describeFlight is an operation and its state:
// "all_reduce #12, f32, 4194304 bytes, bucket 1: started 1.2s ago, not ended".
func describeFlight(f *shm.Flight, now time.Time) string {
	s := operationName(f.Op, f.Seq)
	if f.Op != pb.OpFill && f.Op != pb.OpUpdate && f.Bytes > 0 {
		s += fmt.Sprintf(", %v, %d bytes", tensor.DType(f.DType), f.Bytes)
		if f.Bucket >= 0 {
			s += fmt.Sprintf(", bucket %d", f.Bucket)
		}
	}
	ago := func(t time.Time) time.Duration { return max(now.Sub(t), 0).Round(time.Millisecond) }
	switch {
	case f.Started.IsZero():
		return fmt.Sprintf("%s: queued %v ago, not started", s, ago(f.Enqueued))
	case f.Ended.IsZero():
		return fmt.Sprintf("%s: started %v ago, not ended", s, ago(f.Started))
	case f.Status != shm.OK:
		return fmt.Sprintf("%s: failed %v ago", s, ago(f.Ended))
	}
	return fmt.Sprintf("%s: ended %v ago", s, ago(f.Ended))
}

// Flights are the last operations that the plugin was given, at most 1,024,
// the oldest first, also after its death and after Close. Nil without shared
// memory.
func (b *Backend) Flights() []shm.Flight {
	now := b.now.Load()
	if now.proc == nil {
		return nil
	}
	return now.proc.record.flights(now.proc.ring, shm.Flights)
}
