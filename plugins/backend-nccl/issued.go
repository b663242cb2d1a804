package nccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// issued is a collective whose call was completed early: its event is recorded, but has
// not happened yet.
type issued struct {
	call     call
	event    driver.Event
	ready    driver.Event // what it waits for on this rank, 0 for nothing
	comm     *communicator
	deadline time.Time // zero: none
	start    time.Time
}

// early watches issued collectives, for which no call waits. Their errors are returned
// by the next call. list and failed are used on the thread.
type early struct {
	list     []issued
	failed   error // why there are no communicators any more
	watching sync.WaitGroup
	begin    sync.Once
	wake     chan struct{}
}

// any reports whether anything was ever issued. Only Do may call it.
func (e *early) any() bool { return e.wake != nil }

// lookEvery is how often issued collectives are checked between calls.
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

// watch checks issued collectives until all have happened.
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
				b.failEarly(err)
				return
			}
		}
	}
}

// giveUp tells the next call and the other ranks why an issued collective
// failed.
func (b *Backend) failEarly(err error) {
	var stall sdk.StallError
	if s := (*sdk.StallError)(nil); errors.As(err, &s) {
		stall = *s
	}
	err = b.blame(err, stall.Seq, func(missing []int) error {
		stall.Missing = missing
		return &stall
	})
	b.failHealth(err)
	if b.line != nil {
		b.line.abandon(err)
	}
}

// look removes collectives that have happened. If one is late or its communicator broke,
// all communicators are aborted, so that the events happen and the rank's stream
// continues. It runs on the thread.
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

// overdue returns why an issued collective has failed, nil while it may continue.
func (b *Backend) overdue(i *issued) error {
	stalled := func(missing []int) error {
		return &sdk.StallError{Seq: i.call.Seq, Op: i.call.Op, Bucket: i.call.Bucket, Missing: missing, Waited: time.Since(i.start)}
	}
	if !i.deadline.IsZero() && time.Now().After(i.deadline) {
		return b.unwritten(fmt.Errorf("it was issued in time but has not ended: %w", stalled(nil)), i)
	}
	if b.line != nil {
		return b.line.left(i.call.Seq, stalled)
	}
	return nil
}

// unwritten names this rank in the error of a collective that waits for its own GPU.
func (b *Backend) unwritten(err error, i *issued) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) || i.ready == 0 || !errors.Is(b.device.cuda.EventQuery(i.ready), driver.NotReady) {
		return err
	}
	own := *stall
	own.Missing = []int{b.group.Rank}
	return fmt.Errorf("the GPU of rank %d has not written the buffer in time: %w", b.group.Rank, &own)
}

// settled waits until everything issued has happened.
func (b *Backend) settled(g guard) error {
	return poll(g, func() (bool, error) {
		more, err := b.look()
		return !more, err
	})
}
