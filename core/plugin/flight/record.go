package flight

import (
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// Record reads what a plugin did last out of the control arena, and
// keeps it when the arena is unmapped.
type Record struct {
	// Layer names the layer with a number: "layer act (model.layers[1])"; nil for plugins of other kinds.
	Layer func(number uint64) string

	mu     sync.Mutex
	closed bool
	kept   []shm.Flight
}

// flights are the last n operations; the ring may be nil.
func (f *Record) flights(ring *shm.Submitter, n int) []shm.Flight {
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

// Close comes before the arena is unmapped.
func (f *Record) Close(ring *shm.Submitter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.kept, f.closed = ring.Flights(shm.Flights), true
	}
}

// Last says how far the plugin came: the oldest operation in flight, or the
// last one if none is.
func (f *Record) Last(ring *shm.Submitter) string {
	all := f.flights(ring, shm.Slots)
	for i := range all {
		if all[i].Ended.IsZero() {
			return f.describe(&all[i], time.Now())
		}
	}
	if len(all) == 0 {
		return ""
	}
	return f.describe(&all[len(all)-1], time.Now())
}

// Overdue is the name of an operation that was given and has not ended for at least
// so long, "" if there is none.
func (f *Record) Overdue(ring *shm.Submitter, after time.Duration) string {
	now, all := time.Now(), f.flights(ring, shm.Slots)
	for i := range all {
		if o := &all[i]; o.Ended.IsZero() && now.Sub(o.Enqueued) >= after {
			return f.Name(o.Op, o.Seq)
		}
	}
	return ""
}

// describe is an operation and its state:
// "all_reduce #12, f32, 4194304 bytes, bucket 1: started 1.2s ago, not ended".
func (r *Record) describe(f *shm.Flight, now time.Time) string {
	s := r.Name(f.Op, f.Seq)
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

// Name is an operation's for messages: "all_reduce #12", "fill", "update", "forward of layer act (model.layers[1])".
func (f *Record) Name(code uint8, seq uint64) string {
	switch {
	case f.Layer != nil && code == pb.OpForward:
		return "forward of " + f.Layer(seq)
	case f.Layer != nil && code == pb.OpBackward:
		return "backward of " + f.Layer(seq)
	}
	return Name(code, seq)
}

// Name is an operation's for messages where nothing else is known of the plugin.
func Name(code uint8, seq uint64) string {
	switch code {
	case pb.OpFill:
		return "fill"
	case pb.OpUpdate:
		return "update"
	case pb.OpForward:
		return fmt.Sprintf("forward of layer #%d", seq)
	case pb.OpBackward:
		return fmt.Sprintf("backward of layer #%d", seq)
	}
	return fmt.Sprintf("%v #%d", sdk.Op(code), seq)
}
