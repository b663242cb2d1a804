package memory

import (
	"cmp"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// prefetcher uploads batches ahead of their runs, on its own stream, into one of two
// slots alternately. A run copies its batch from there to where its kernels read, and
// has ended when its slot is filled again.
type prefetcher struct {
	stream driver.Stream
	slots  [2]slot
	next   int
	direct driver.Event // a batch that was not prefetched was read
	read   driver.Event // of the run under way: its slot's full, or direct
}

// slot is memory for one batch.
type slot struct {
	input         uintptr // host address of the batch in it; 0: none
	inputN, total int
	at            driver.DevicePtr
	capacity      int
	full          driver.Event // the batch is here
}

// Prefetch implements [plan.Resident].
func (r *Residency) Prefetch(input, target []byte) error {
	g, f := r.g, &r.prefetch
	if err := g.Lost(); err != nil {
		return err
	}
	defer g.Enter()()
	if err := f.open(g); err != nil {
		return g.Check(err, gpu.Doing("the stream of the batches"))
	}
	s := &f.slots[f.next]
	f.next = 1 - f.next
	if err := s.fill(g, f.stream, input, target); err != nil {
		s.input = 0
		return g.Check(err, gpu.Doing("copying a batch ahead"))
	}
	return nil
}

func (s *slot) fill(g *gpu.GPU, on driver.Stream, input, target []byte) error {
	s.inputN, s.total = len(input), RoundUp(len(input))+len(target)
	if s.capacity < s.total {
		if err := s.grow(g); err != nil {
			return err
		}
	}
	err := g.PutOn(on, s.at, input)
	if err = cmp.Or(err, g.PutOn(on, s.at+driver.DevicePtr(RoundUp(len(input))), target)); err != nil {
		return err
	}
	s.input = addressOf(input)
	return g.CU.EventRecord(s.full, on)
}

func (s *slot) grow(g *gpu.GPU) (err error) {
	if s.at != 0 {
		err = g.CU.MemFree(s.at)
	}
	s.at, s.capacity = 0, 0
	if err == nil {
		if s.at, err = g.Alloc(s.total, "the next batch"); err == nil {
			s.capacity = s.total
		}
	}
	return err
}

// WaitPrefetched implements [plan.Resident].
func (r *Residency) WaitPrefetched() error {
	if r.prefetch.read == 0 {
		return nil
	}
	defer r.g.Enter()()
	return r.g.Await(r.prefetch.stream, r.prefetch.read, gpu.Doing("the copy of a batch to the GPU"))
}

// DropPrefetched implements [plan.Resident].
func (r *Residency) DropPrefetched() {
	for i := range r.prefetch.slots {
		r.prefetch.slots[i].input = 0
	}
}

// Pin implements [plan.Resident].
func (r *Residency) Pin(mem []byte) (unpin func() error, note string) {
	defer r.g.Enter()()
	undo, note := r.g.Pin(mem)
	return func() error {
		if r.g.Lost() != nil {
			return nil
		}
		defer r.g.Enter()()
		return undo()
	}, note
}

// holding is the slot that a batch was prefetched into, nil where none was.
func (f *prefetcher) holding(input []byte) *slot {
	for i := range f.slots {
		if s := &f.slots[i]; s.input != 0 && s.input == addressOf(input) && s.inputN == len(input) {
			return s
		}
	}
	return nil
}

func (f *prefetcher) open(g *gpu.GPU) error {
	if f.stream != 0 {
		return nil
	}
	for _, e := range f.events() {
		if err := g.CU.EventCreate(e, driver.EventDisableTiming); err != nil {
			return err
		}
	}
	return g.CU.StreamCreate(&f.stream, driver.StreamNonBlocking)
}

func (f *prefetcher) events() []*driver.Event {
	a, b := &f.slots[0], &f.slots[1]
	return []*driver.Event{&a.full, &b.full, &f.direct}
}

func (f *prefetcher) close(g *gpu.GPU) (err error) {
	if f.stream == 0 {
		return nil
	}
	err = g.CU.StreamDestroy(f.stream)
	for _, e := range f.events() {
		err = cmp.Or(err, g.CU.EventDestroy(*e))
	}
	for i := range f.slots {
		if s := &f.slots[i]; s.at != 0 {
			err = cmp.Or(err, g.CU.MemFree(s.at))
		}
	}
	return err
}

// LoadBatch enqueues the copy of a call's batch to the memory that kernels read: from
// the slot that it was prefetched into, or from the host.
func (m *Program) LoadBatch(c *plan.Call) error {
	g, f := m.GPU, &m.residency.prefetch
	s := f.holding(c.Input)
	if s == nil {
		if err := cmp.Or(g.Put(m.Batch, c.Input), g.Put(m.Target, c.Target)); err != nil || len(m.residency.spans) == 0 {
			return err
		}
		if err := f.open(g); err != nil {
			return err
		}
		f.read = f.direct
		return g.CU.EventRecord(f.direct, g.Stream)
	}
	s.input, f.read = 0, s.full
	if err := g.CU.StreamWaitEvent(g.Stream, s.full, 0); err != nil {
		return err
	}
	return g.CU.MemcpyDtoDAsync(m.Batch, s.at, uintptr(s.total), g.Stream) // the target lies behind the input in both
}
