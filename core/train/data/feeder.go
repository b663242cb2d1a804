package data

import (
	"errors"
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
)

// Device copies batches to its own memory while it computes (plan.Resident).
type Device interface {
	// Prefetch starts to copy the batch of the next run, and DropPrefetched drops one
	// that no run has used. WaitPrefetched waits until the batch of the run under way
	// was read.
	Prefetch(input, target []byte) error
	WaitPrefetched() error
	DropPrefetched()
}

// Feeder gives the steps of an epoch their batches. For a device with its own memory
// it prefetches the next batch and starts to copy it. It must be used on the goroutine
// of the training loop.
type Feeder struct {
	loader   *Loader
	sampler  *Sampler
	division Division
	device   Device             // nil: it computes in the host's memory
	trace    *timeline.Recorder // nil: off

	next    Batch         // taken from the loader for the next pass; no rows: none
	nextErr error         // why there is none
	waited  time.Duration // for batches since Waited
	hidden  time.Duration // of waited, while the device computed
	claimed int           // batches of the pass whose rows rows has counted
	steps   int           // of the pass, as rows has counted them
	before  int           // batches of the epoch before the pass over the rest of it
	left    int           // samples of that rest, over all ranks
}

// NewFeeder makes a feeder of a rank's samples in batches of division.Rows, which is
// the loader's size. device is nil where batches are read in the host's memory.
func NewFeeder(l *Loader, s *Sampler, division Division, device Device) *Feeder {
	return &Feeder{loader: l, sampler: s, division: division, device: device}
}

// Trace records the waiting time for batches.
func (f *Feeder) Trace(r *timeline.Recorder) { f.trace = r }

// Start begins a pass over the rest of an epoch: all ranks together have already processed its
// first done samples.
func (f *Feeder) Start(epoch, done int) error {
	s, step := f.sampler, f.division.Step
	f.claimed, f.steps, f.next, f.nextErr = 0, 0, Batch{}, nil
	f.Forget()
	f.before = done / s.world / f.loader.size
	f.left = s.End(done, step) - done
	return f.loader.Start(sdk.Train, epoch, s.rest(epoch, done, f.division), f.division.Share(step, s.world, s.rank))
}

// Step is the next step of the epoch, by what is known without asking other ranks. It
// is called between steps. If this rank's data set has ended early it is shorter.
func (f *Feeder) Step() Step {
	s, d := f.sampler, f.division
	n := max(0, min(d.Step, f.left-f.steps*d.Step))
	own := d.batches(n, s.world, s.rank)
	passes, least := d.spread(n, s.world)
	uneven := passes != least
	if left := f.Left(); left < own { // the data set has ended
		own, passes = left, left
	}
	return Step{Passes: passes, Own: own, Uneven: uneven, Mean: float64(n) / float64(s.world), Samples: n}
}

// Stop ends the pass, so that another loader may use the data set's slots.
func (f *Feeder) Stop() error { return f.loader.Stop() }

// Forget drops a batch that was copied to the device in advance and will not be used.
func (f *Feeder) Forget() {
	if f.device != nil {
		f.device.DropPrefetched()
	}
}

// Peek waits for the next batch and keeps it for Next. It returns ErrEnd if the
// data set has ended.
func (f *Feeder) Peek() error {
	_, err := f.fetch(0)
	return err
}

// Next returns the batch of a step's i-th pass, or ErrEnd if there is none, and the time at which
// the pass began.
func (f *Feeder) Next(i int) (b Batch, begun timeline.Mark, err error) {
	if f.next.Rows > 0 {
		begun = f.trace.Now()
	} else if begun, err = f.fetch(i); err != nil {
		return Batch{}, begun, err
	}
	b, f.next = f.next, Batch{}
	return b, begun, nil
}

// fetch waits for the next batch, unless it was taken ahead.
func (f *Feeder) fetch(i int) (begun timeline.Mark, err error) {
	if f.next.Rows > 0 || f.nextErr != nil {
		err, f.nextErr = f.nextErr, nil
		return begun, err
	}
	waited, mark := time.Now(), f.trace.Now()
	f.next, err = f.loader.Next()
	f.waited += time.Since(waited)
	return f.trace.Since(timeline.Data, "batch", i, mark), err
}

// Prefetch takes the next batch of the epoch and starts to copy it to the device,
// which computes at the same time. This frees the slot of the previous batch, which
// must have been read before. An error is returned by the next Peek or Next.
func (f *Feeder) Prefetch() {
	if f.next.Rows > 0 || f.nextErr != nil || f.loader.Left() == 0 {
		return
	}
	if f.nextErr = f.device.WaitPrefetched(); f.nextErr != nil {
		return
	}
	before := f.waited
	_, f.nextErr = f.fetch(0)
	f.hidden += f.waited - before
	if f.nextErr == nil {
		f.nextErr = f.device.Prefetch(f.next.Input, f.next.Target)
	}
}

// Left is the number of batches that this rank still has in the epoch, as far as is
// known. It includes a prefetched batch, and one that turned out to be missing.
func (f *Feeder) Left() int {
	n := f.loader.Left()
	if f.next.Rows > 0 || errors.Is(f.nextErr, ErrEnd) {
		n++
	}
	return n
}

// Used is the number of batches of the epoch that this rank has passed to passes.
func (f *Feeder) Used() int {
	n := f.before + f.loader.taken
	if f.next.Rows > 0 {
		n--
	}
	return n
}

// Rows is the number of samples in the next n batches, if the data set does not end before. It is
// called once in each step, for its batches.
func (f *Feeder) Rows(n int) (rows int) {
	for i := range n {
		rows += f.loader.rows(f.claimed + i)
	}
	f.claimed += n
	f.steps++
	return rows
}

// Waited is the time spent waiting for batches since the last call, and the part of it in which
// nothing was computed.
func (f *Feeder) Waited() (total, idle time.Duration) {
	total, idle = f.waited, f.waited-f.hidden
	f.waited, f.hidden = 0, 0
	return total, idle
}
