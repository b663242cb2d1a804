package app

import "context"

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

// closing ends what has been started, and waits for what still starts so that
// nothing is left behind.
func closing[T interface{ Close(context.Context) error }](s *Starting[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		<-s.done
		if s.err != nil {
			return nil
		}
		return s.value.Close(ctx)
	}
}
