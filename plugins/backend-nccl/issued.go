package nccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// issued is a collective that was completed early: its event is recorded, and
// has not happened yet.
type issued struct {
	call     call
	event    driver.Event
	ready    driver.Event // what it waits for on this rank, 0 for nothing
	comm     *communicator
	deadline time.Time // zero: none
	start    time.Time
}

// early watches over issued collectives, since nobody waits for them here. What
// becomes of them is told to the next call. list and failed belong to the thread.
type early struct {
	list     []issued
	failed   error // why there are no communicators any more
	watching sync.WaitGroup
	begin    sync.Once
	wake     chan struct{}
}

// any reports whether anything was ever issued. Do alone may ask.
func (e *early) any() bool { return e.wake != nil }

// lookEvery is how often issued collectives are looked at while nobody calls.
const lookEvery = 50 * time.Millisecond

// keep adds a collective that was issued just now.
func (b *Backend) keep(i issued) {
	b.early.list = append(b.early.list, i)
	b.early.begin.Do(func() {
		b.early.wake = make(chan struct{}, 1)
		b.early.watching.Go(b.watch)
	})
	select {
	case b.early.wake <- struct{}{}:
	default:
	}
}

// watch looks at what was issued until all of it has happened.
func (b *Backend) watch() {
	for {
		select {
		case <-b.early.wake:
		case <-b.life.Context.Done():
			return
		}
		for more := true; more; {
			select {
			case <-time.After(lookEvery):
			case <-b.life.Context.Done():
				return
			}
			if err := b.thread.run(func() (err error) { more, err = b.look(); return err }, b.life.Context); err != nil {
				b.giveUp(err)
				return
			}
		}
	}
}

// giveUp tells the next call and the other ranks why an issued collective
// failed.
func (b *Backend) giveUp(err error) {
	var stall sdk.StallError
	if s := (*sdk.StallError)(nil); errors.As(err, &s) {
		stall = *s
	}
	err = b.blame(err, stall.Seq, func(missing []int) error {
		stall.Missing = missing
		return &stall
	})
	b.sicken(err)
	if b.line != nil {
		b.line.abandon(err)
	}
}

// look forgets what has happened. A collective that is late or whose
// communicator broke ends them all; the communicators are aborted, so that the
// events happen and the rank's stream goes on. It belongs to the thread.
func (b *Backend) look() (more bool, err error) {
	e := &b.early
	for e.failed == nil && len(e.list) > 0 {
		i := &e.list[0]
		happened, err := i.happened(b.device.cuda)
		if err == nil && !happened {
			err = b.overdue(i)
		}
		if err != nil {
			e.list, e.failed = nil, err
			b.abort()
			break
		}
		if !happened {
			return true, nil
		}
		e.list = e.list[1:]
	}
	return false, e.failed
}

func (i *issued) happened(c *driver.CUDA) (bool, error) {
	err := c.EventQuery(i.event)
	if errors.Is(err, driver.NotReady) {
		_, err = i.comm.state()
		return false, err
	}
	return err == nil, err
}

// overdue is why an issued collective is not waited for any longer, nil as
// long as it is.
func (b *Backend) overdue(i *issued) error {
	stalled := func(missing []int) error {
		return &sdk.StallError{Seq: i.call.Seq, Op: i.call.Op, Bucket: i.call.Bucket, Missing: missing, Waited: time.Since(i.start)}
	}
	if !i.deadline.IsZero() && time.Now().After(i.deadline) {
		return b.unwritten(fmt.Errorf("it was issued in time and has not ended: %w", stalled(nil)), i)
	}
	if b.line != nil {
		return b.line.left(i.call.Seq, stalled)
	}
	return nil
}

// unwritten names this rank in the error of a collective that waits for its
// own GPU.
func (b *Backend) unwritten(err error, i *issued) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) || i.ready == 0 || !errors.Is(b.device.cuda.EventQuery(i.ready), driver.NotReady) {
		return err
	}
	own := *stall
	own.Missing = []int{b.group.Rank}
	return fmt.Errorf("the GPU of rank %d has not written the buffer by then: %w", b.group.Rank, &own)
}

// settled returns when everything issued has happened.
func (b *Backend) settled(g guard) error {
	return poll(g, func() (bool, error) {
		more, err := b.look()
		return !more, err
	})
}
