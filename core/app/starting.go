package app

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
)

// Starting is a value that takes a while to become available, such as a plugin's
// process. Constructors return it at once, so that all plugins of a rank start
// concurrently; Get waits for the value.
type Starting[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// start runs begin on a new goroutine.
func start[T any](begin func() (T, error)) *Starting[T] {
	s := &Starting[T]{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.value, s.err = begin()
	}()
	return s
}

// ready wraps a value that is available already.
func ready[T any](v T) *Starting[T] {
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

// closing ends a plugin, and first waits for one that is still starting so that no
// process is left. An error is only a warning: by then the run has succeeded, or failed
// for another reason.
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
