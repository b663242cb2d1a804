package trainctl

import (
	"context"
	"reflect"
	"sync"

	"github.com/trainctl/trainctl/core/report/event"
)

// forwarder sends events to a channel, and keeps those that the reader has not taken yet.
type forwarder struct {
	to chan<- Event

	mu    sync.Mutex
	queue []Event
	ended bool
	more  chan struct{} // has room for one
	over  chan struct{} // closed when ended
}

func forward(ctx context.Context, to chan<- Event) *forwarder {
	f := &forwarder{to: to, more: make(chan struct{}, 1), over: make(chan struct{})}
	unread, abandon := context.WithCancel(context.Background())
	go func() {
		<-f.over
		select {
		case <-ctx.Done(): // nobody has to read what is left
		case <-unread.Done(): // nothing is left
		}
		abandon()
	}()
	go func() {
		defer close(to)
		defer abandon()
		f.run(unread)
	}()
	return f
}

// Emit implements event.Sink.
func (f *forwarder) Emit(r event.Record) {
	mine := reflect.New(reflect.TypeOf(r.Event).Elem()) // the sender may reuse its own
	mine.Elem().Set(reflect.ValueOf(r.Event).Elem())
	r.Event = mine.Interface().(event.Event)
	f.add(func() { f.queue = append(f.queue, r) })
}

// Close implements event.Sink. It may be called more than once.
func (f *forwarder) Close() error {
	f.add(func() {
		if !f.ended {
			close(f.over)
		}
		f.ended = true
	})
	return nil
}

func (f *forwarder) add(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// run sends what is queued until the run has ended and all is sent, or ctx ends.
func (f *forwarder) run(ctx context.Context) {
	for {
		f.mu.Lock()
		queue, ended := f.queue, f.ended
		f.queue = nil
		f.mu.Unlock()
		for _, r := range queue {
			select {
			case f.to <- r:
			case <-ctx.Done():
				return
			}
		}
		if ended && len(queue) == 0 {
			return
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-f.more:
		case <-ctx.Done():
			return
		}
	}
}
