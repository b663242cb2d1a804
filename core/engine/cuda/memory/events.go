package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
)

// eventCount is how many events an arena has. With 64 calls in flight the
// 65th is free again; see [contract.MaxEvents].
const eventCount = 128

// events are those that put the rank's stream and the backend's in order. A
// nil one is that of a device that cannot share any.
type events struct {
	cu    *driver.CUDA
	ready []driver.Event // ours
	done  []driver.Event // the backend's
	ours  bool           // done are handles of its process, opened in this one
	next  int
}

func newEvents(cu *driver.CUDA) (*events, error) {
	e := &events{cu: cu}
	for range eventCount {
		var event driver.Event
		if err := cu.EventCreate(&event, driver.EventDisableTiming|driver.EventInterprocess); err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.ready = append(e.ready, event)
	}
	return e, nil
}

// local are the rank's events for a backend in this process.
func (e *events) local() (out contract.Events) {
	if e == nil {
		return out
	}
	for _, event := range e.ready {
		out.Local = append(out.Local, uint64(event))
	}
	return out
}

// shared are the rank's events for another process.
func (e *events) shared() (out contract.Events, err error) {
	if e == nil {
		return out, nil
	}
	for _, event := range e.ready {
		var h driver.IPCEventHandle
		if err := e.cu.IPCGetEventHandle(&h, event); err != nil {
			return contract.Events{}, fmt.Errorf("cuda: %w", err)
		}
		out.Handles = append(out.Handles, h.Bytes[:])
	}
	return out, nil
}

// open replaces the events of the previous backend by those of this one.
func (e *events) open(from contract.Events) error {
	err := e.drop()
	for _, h := range from.Local {
		e.done = append(e.done, driver.Event(h))
	}
	e.ours = len(from.Handles) > 0
	for _, raw := range from.Handles {
		var h driver.IPCEventHandle
		var event driver.Event
		copy(h.Bytes[:], raw)
		if err := e.cu.IPCOpenEventHandle(&event, h); err != nil {
			return errors.Join(fmt.Errorf("cuda: an event of the backend's: %w", err), e.drop())
		}
		e.done = append(e.done, event)
	}
	return err
}

// drop forgets the backend's events.
func (e *events) drop() error {
	var errs []error
	if e.ours {
		for _, event := range e.done {
			errs = append(errs, e.cu.EventDestroy(event))
		}
	}
	e.done = nil
	return errors.Join(errs...)
}

func (e *events) close() error {
	if e == nil {
		return nil
	}
	errs := []error{e.drop()}
	for _, event := range e.ready {
		errs = append(errs, e.cu.EventDestroy(event))
	}
	e.ready = nil
	return errors.Join(errs...)
}

// Attached takes the events that the backend's Attach has put into m.Done.
// Without any, Written waits instead.
func (a *Arena) Attached(m *contract.DeviceMemory) error {
	if a.events == nil {
		return nil
	}
	return a.events.open(m.Done)
}

// Written is called when everything that writes a buffer of the arena has been
// put on the stream, before the collective is submitted. It returns the number
// for the call's Ready, and for its Done if the call is to complete early.
// Where there are no shared events it waits until the stream has come so far, as
// long as ctx lasts, and returns 0.
func (a *Arena) Written(ctx context.Context, s driver.Stream) (int, error) {
	e := a.events
	if e == nil || len(e.done) == 0 {
		return 0, gpu.WaitStream(ctx, a.cu, s)
	}
	n := e.next%a.usable() + 1
	if err := a.cu.EventRecord(e.ready[n-1], s); err != nil {
		return 0, fmt.Errorf("cuda: %w", err)
	}
	e.next = n
	return n, nil
}

// usable is how many events the calls use one after the other, 0 where none are shared.
func (a *Arena) usable() int {
	if a.events == nil {
		return 0
	}
	return min(len(a.events.ready), len(a.events.done))
}

// Follow lets the stream wait for what a completed call with that Done put on
// the backend's stream. 0 is nothing to wait for.
func (a *Arena) Follow(s driver.Stream, done int) error {
	if done == 0 {
		return nil
	}
	if err := a.cu.StreamWaitEvent(s, a.events.done[done-1], 0); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}
