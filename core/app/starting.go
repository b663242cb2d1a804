package app

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
)

// Starting is something that takes a while to be there, such as a plugin's
// process. Constructors return it at once, so that all plugins of a rank
// start at the same time; who needs the value waits for it with Get.
type Starting[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Start runs begin on a goroutine of its own.
func Start[T any](begin func() (T, error)) *Starting[T] {
	s := &Starting[T]{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.value, s.err = begin()
	}()
	return s
}

// Ready wraps a value that is there already.
func Ready[T any](v T) *Starting[T] {
	s := &Starting[T]{done: make(chan struct{}), value: v}
	close(s.done)
	return s
}

// Get waits for the value.
func (s *Starting[T]) Get(ctx context.Context) (T, error) {
	select {
	case <-s.done:
		return s.value, s.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// closing ends the plugin that has been started, and waits for one that still
// starts so that nothing is left behind. One that does not end well is a
// warning: by then the run has succeeded without it, or failed for a reason of its own.
func closing[T interface{ Close(context.Context) error }](s *Starting[T], bus *event.Bus) func(context.Context) error {
	return func(ctx context.Context) error {
		<-s.done
		if s.err != nil {
			return nil
		}
		err := s.value.Close(ctx)
		if errors.As(err, new(*host.PluginError)) {
			bus.Emit(&event.Warning{Source: "plugins", Message: err.Error()})
			return nil
		}
		return err
	}
}
