package nccl

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// issued is a collective whose call was completed early: its event is recorded, but has
// not happened yet.
type issued struct {
	stall    sdk.StallError // which call it is
	event    driver.Event
	ready    driver.Event // what it waits for on this rank, 0 for nothing
	comm     *communicator
	deadline time.Time // zero: none
	start    time.Time
}

// watcher watches issued collectives, for which no call waits. Their errors are returned
// by the next call. list and failed are used on the thread.
type watcher struct {
	list     []issued
	failed   error // why there are no communicators any more
	watching sync.WaitGroup
	begin    sync.Once
	wake     chan struct{}
}

// any reports whether anything was ever issued. Only Do may call it.
func (w *watcher) any() bool { return w.wake != nil }

// lookEvery is how often issued collectives are checked between calls.
const lookEvery = 50 * time.Millisecond

// keep adds a collective that was issued just now.
func (b *Backend) keep(i issued) {
	b.watcher.list = append(b.watcher.list, i)
	b.watcher.begin.Do(func() {
		b.watcher.wake = make(chan struct{}, 1)
		b.watcher.watching.Go(b.watch)
	})
	select {
	case b.watcher.wake <- struct{}{}:
	default:
	}
}

// watch checks issued collectives until all have happened.
func (b *Backend) watch() {
	for {
		select {
		case <-b.watcher.wake:
		case <-b.life.Context.Done():
			return
		}
		for more := true; more; {
			select {
			case <-time.After(lookEvery):
			case <-b.life.Context.Done():
				return
			}
			if err := b.thread.Run(func() (err error) { more, err = b.look(); return err }, b.life.Context); err != nil {
				b.failIssued(err)
				return
			}
		}
	}
}

// failIssued reports to the next call and to the other ranks why an issued collective
// failed.
func (b *Backend) failIssued(err error) {
	var stall sdk.StallError
	if s := (*sdk.StallError)(nil); errors.As(err, &s) {
		stall = *s
	}
	err = b.member.Blame(err, stall.Seq, func(missing []int) error {
		stall.Missing = missing
		return &stall
	})
	b.failHealth(err)
	b.member.Report(err)
}

// look removes collectives that have happened. If one is late or its communicator broke,
// all communicators are aborted, so that the events happen and the rank's stream
// continues. It runs on the thread.
func (b *Backend) look() (more bool, err error) {
	w := &b.watcher
	for w.failed == nil && len(w.list) > 0 {
		i := &w.list[0]
		happened, err := i.happened(b.device.cuda)
		if err == nil && !happened {
			err = b.overdue(i)
		}
		if err != nil {
			w.list, w.failed = nil, err
			b.abort()
			break
		}
		if !happened {
			return true, nil
		}
		w.list = w.list[1:]
	}
	return false, w.failed
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
		stall := i.stall
		stall.Missing, stall.Waited = missing, time.Since(i.start)
		return &stall
	}
	if !i.deadline.IsZero() && time.Now().After(i.deadline) {
		return b.unwritten(fmt.Errorf("it was issued in time but has not ended: %w", stalled(nil)), i)
	}
	return b.member.Left(i.stall.Seq, stalled)
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
func (b *Backend) settled(g clib.Guard) error {
	return clib.Poll(g, func() (bool, error) {
		more, err := b.look()
		return !more, err
	})
}
