package flight

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
)

// Recorder copies the operations of a backend into a file: when they are
// submitted, when they are waited for, and on every look of the supervision
// how far those in flight have come. A nil Recorder records nothing.
type Recorder struct {
	mu         sync.Mutex
	file       *shm.FlightFile
	generation uint8
	ring       *shm.Submitter        // of the current process; nil inline
	submitted  uint64                // tickets of the current process
	ended      uint64                // those of them that were waited for
	at         [shm.Slots]uint64     // by ticket: number in the file
	store      [shm.Slots]shm.Flight // by ticket: what the file has
}

// NewRecorder begins the file of a rank in dir.
func NewRecorder(dir string, g sdk.Group, plugin string) (*Recorder, error) {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	about, err := json.Marshal(About{
		Rank: g.Rank, World: g.WorldSize, Attempt: g.Generation, PID: os.Getpid(), Host: name, Plugin: plugin, Started: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := shm.CreateFlightFile(Path(dir, g.Rank, g.Generation), about)
	if err != nil {
		return nil, err
	}
	return &Recorder{file: file}, nil
}

// Begin is called for every process: its tickets start at 1.
func (r *Recorder) Begin(ring *shm.Submitter, epoch int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring, r.generation = ring, uint8(epoch+1)
	r.submitted, r.ended = 0, 0
}

// Submit notes a call over size bytes.
func (r *Recorder) Submit(ticket uint64, c *sdk.Collective, size int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.store[ticket%shm.Slots]
	if !r.look(ticket, f) {
		*f = shm.Flight{
			Ticket: ticket, Seq: c.Seq, Bytes: uint64(size), Bucket: int32(c.Bucket),
			Op: uint8(c.Op), DType: uint8(c.DType), Reduce: uint8(c.Reduce), Enqueued: time.Now(),
		}
	}
	f.Generation = r.generation
	r.submitted = ticket
	r.at[ticket%shm.Slots] = r.file.Add(f)
}

// look reads the state of a ticket from the ring.
func (r *Recorder) look(ticket uint64, f *shm.Flight) bool {
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

// Wait notes the end of a ticket, and with it of those before.
func (r *Recorder) Wait(ticket uint64, err error) {
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

// Refresh notes how far the operations in flight have come.
func (r *Recorder) Refresh() {
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

// Release looks a last time before the ring's memory is unmapped.
func (r *Recorder) Release() {
	if r == nil {
		return
	}
	r.Refresh()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = nil
}

// Close ends the record; the file stays.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
