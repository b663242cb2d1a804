package host

import (
	"context"
	"sync"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/sdk"
)

// local is an instance in this process. It gets one call at a time, and is closed
// once. It owns its queue, whose errors have the instance's name, like those of a
// process.
type local[I instance] struct {
	instance I
	info     sdk.Info

	mu      sync.Mutex // held during every call of the instance
	closing sync.Once
	ended   error // of Close
}

type instance interface {
	Info() sdk.Info
	Close() error
}

func newLocal[I instance](kind sdk.Kind, i I) local[I] {
	info := i.Info()
	info.Kind = kind
	return local[I]{instance: i, info: info}
}

// queue returns a queue that executes operations with do.
func (l *local[I]) queue(do func(context.Context, *operation, *sdk.ScaleState) error) queue {
	return newCallQueue(l, func(ctx context.Context, op *operation, scale *sdk.ScaleState) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return do(ctx, op, scale)
	}, margin)
}

// call makes one call of the instance.
func (l *local[I]) call(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

// get makes one call of an instance that returns a value.
func get[T any, I instance](l *local[I], f func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

// Close closes the instance once and keeps the error.
func (l *local[I]) Close() error {
	l.closing.Do(func() { l.ended = l.instance.Close() })
	return l.ended
}

func (l *local[I]) error(phase string, err error) error {
	return &PluginError{Kind: l.info.Kind, Name: l.info.Name, Phase: phase, Cause: err}
}

func (*local[I]) name(op *operation) string { return flight.Name(op.code, op.call.Seq) }

func (*local[I]) failure() error { return nil }

func (*local[I]) abort(error) {}
