package host

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/sdk"
)

// recorder copies the operations of a backend into a file: when they are
// submitted, when they are waited for, and on every look of the supervision
// how far those in flight have come. A nil recorder records nothing.
type recorder struct {
	mu         sync.Mutex
	file       *shm.FlightFile
	generation uint8
	ring       *shm.Submitter        // of the process at work; nil inline
	submitted  uint64                // tickets of the process at work
	ended      uint64                // those of them that were waited for
	at         [shm.Slots]uint64     // by ticket: number in the file
	store      [shm.Slots]shm.Flight // by ticket: what the file has
}

func newRecorder(dir string, g sdk.Group, plugin string) (*recorder, error) {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	about, err := json.Marshal(flight.About{
		Rank: g.Rank, World: g.WorldSize, Attempt: g.Generation, PID: os.Getpid(), Host: name, Plugin: plugin, Started: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := shm.CreateFlightFile(flight.Path(dir, g.Rank, g.Generation), about)
	if err != nil {
		return nil, err
	}
	return &recorder{file: file}, nil
}

// begin is called for every process: its tickets start at 1.
func (r *recorder) begin(ring *shm.Submitter, epoch int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring, r.generation = ring, uint8(epoch+1)
	r.submitted, r.ended = 0, 0
}

func (r *recorder) submit(ticket uint64, op *operation) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.store[ticket%shm.Slots]
	if !r.look(ticket, f) {
		c := &op.call
		*f = shm.Flight{
			Ticket: ticket, Seq: c.Seq, Bytes: uint64(op.size), Bucket: int32(c.Bucket),
			Op: uint8(c.Op), DType: uint8(c.DType), Reduce: uint8(c.Reduce), Enqueued: time.Now(),
		}
	}
	f.Generation = r.generation
	r.submitted = ticket
	r.at[ticket%shm.Slots] = r.file.Add(f)
}

// look reads what the ring says of a ticket.
func (r *recorder) look(ticket uint64, f *shm.Flight) bool {
	if r.ring == nil {
		return false
	}
	seen, ok := r.ring.Flight(ticket)
	if ok {
		seen.Generation = r.generation
		*f = seen
	}
	return ok
}

// wait notes the end of a ticket, and with it of those before.
func (r *recorder) wait(ticket uint64, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; r.ended < min(ticket, r.submitted); r.ended++ {
		t := r.ended + 1
		f := &r.store[t%shm.Slots]
		if !r.look(t, f) {
			f.Ended = time.Now()
			if err != nil && t == ticket {
				f.Status = shm.Failed
			}
		}
		r.file.Update(r.at[t%shm.Slots], f)
	}
}

// refresh notes how far the operations in flight have come.
func (r *recorder) refresh() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring == nil {
		return
	}
	for t := r.ended + 1; t <= r.submitted; t++ {
		f := &r.store[t%shm.Slots]
		if before := *f; r.look(t, f) && *f != before {
			r.file.Update(r.at[t%shm.Slots], f)
		}
	}
}

// release looks a last time before the ring's memory is unmapped.
func (r *recorder) release() {
	if r == nil {
		return
	}
	r.refresh()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = nil
}

func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	r.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
