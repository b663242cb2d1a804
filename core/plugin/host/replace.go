package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// Replacement says how often a plugin other than a backend that died, hangs or panicked
// is replaced by another process of the same program, which continues where it was. It
// is set before the plugin is opened. A plugin in this process is never replaced.
type Replacement struct {
	Restarts int            // 0: never
	Report   func(Replaced) // called after each; may be nil
}

// Replaced reports that a plugin was replaced.
type Replaced struct {
	Kind    sdk.Kind
	Name    string // as written in the TOML
	PID     int    // of the new process
	Restart int    // how often it has been replaced, from 1
	Cause   error  // why
	Took    time.Duration
}

// running is a plugin that runs: a process, or a value in this process. C has the
// calls that do not go through the queue.
type running[C any] struct {
	info  sdk.Info
	ctl   C
	queue queue
	proc  *plugin // nil in process
}

// kill ends the process now and returns when it is dead.
func (r *running[C]) kill(ctx context.Context) {
	r.proc.abort(ErrClosed)
	_ = r.close(ctx) // the error of a killed process does not matter
}

func (r *running[C]) close(ctx context.Context) error { return r.proc.close(ctx, r.queue) }

// operate runs one operation of the inline data plane.
type operate = func(context.Context, *operation, *sdk.ScaleState) error

// processes returns what starts processes of a plugin. calls makes the calls to one.
func processes[C any](h *Host, kind sdk.Kind, name string, calls func(*plugin) (C, operate)) func(context.Context) (*running[C], error) {
	return func(ctx context.Context) (*running[C], error) {
		p, err := h.start(ctx, kind, name)
		if err != nil {
			return nil, err
		}
		ctl, do := calls(p)
		return &running[C]{info: p.info, ctl: ctl, queue: p.queue(do), proc: p}, nil
	}
}

// launched is a plugin of which one process after the other may run.
type launched[C any] struct {
	now   atomic.Pointer[running[C]]
	start func(context.Context) (*running[C], error) // another process of the same program; nil in process
}

// Info returns the plugin's Info.
func (l *launched[C]) Info() sdk.Info { return l.now.Load().info }

// PID returns the id of the plugin's process, 0 in process.
func (l *launched[C]) PID() int { return l.now.Load().proc.pid() }

// launch starts the first process.
func (l *launched[C]) launch(ctx context.Context, start func(context.Context) (*running[C], error)) error {
	first, err := start(ctx)
	if err != nil {
		return err
	}
	l.start = start
	l.now.Store(first)
	return nil
}

// replaceable is a plugin that is replaced when its process fails.
type replaceable[C any] struct {
	launched[C]
	with Replacement
	used atomic.Int64
	mu   sync.Mutex      // of the plugin that this is part of
	life context.Context // until Close; nil in process
	end  context.CancelFunc
}

// launch starts the first process.
func (r *replaceable[C]) launch(ctx context.Context, start func(context.Context) (*running[C], error)) error {
	r.life, r.end = context.WithCancel(context.Background())
	return r.launched.launch(ctx, start)
}

// Replace sets how often the plugin is replaced.
func (r *replaceable[C]) Replace(with Replacement) { r.with = with }

// Replaced is how often the plugin has been replaced.
func (r *replaceable[C]) Replaced() int { return int(r.used.Load()) }

// replaces reports whether the plugin is replaced if it fails.
func (r *replaceable[C]) replaces() bool {
	return r.start != nil && r.with.Restarts > 0 && !r.now.Load().proc.attached()
}

// replace replaces the process that failed with cause, and puts the new one where the old
// one was by calling restore. It returns nil once the call that failed can be
// repeated, and otherwise why not. mu is held.
func (r *replaceable[C]) replace(kind sdk.Kind, cause error, restore func(context.Context, *running[C]) error) error {
	for r.replaces() && mayRestart(cause) && r.life.Err() == nil {
		if r.Replaced() >= r.with.Restarts {
			return fmt.Errorf("%s.restarts = %d are used up: %w", registry.Table(kind), r.with.Restarts, cause)
		}
		begin := time.Now()
		r.used.Add(1)
		old := r.now.Load()
		name := old.proc.proc.name
		old.kill(context.Background())
		if err := r.again(restore); err != nil {
			cause = err
			continue
		}
		if r.with.Report != nil {
			r.with.Report(Replaced{Kind: kind, Name: name, PID: r.PID(), Restart: r.Replaced(), Cause: cause, Took: time.Since(begin)})
		}
		return nil
	}
	return cause
}

// repeatWith makes a call, and again after the plugin has been replaced. mu is held.
func (r *replaceable[C]) repeatWith(kind sdk.Kind, restore func(context.Context, *running[C]) error, call func(*running[C]) error) error {
	for {
		err := call(r.now.Load())
		if err == nil {
			return nil
		}
		if err := r.replace(kind, err, restore); err != nil {
			return err
		}
	}
}

// again starts another process and restores its state.
func (r *replaceable[C]) again(restore func(context.Context, *running[C]) error) error {
	next, err := r.start(r.life)
	if err != nil {
		return err
	}
	r.now.Store(next)
	return restore(r.life, next)
}

// close closes the process in use, and one that is being started in its place.
func (r *replaceable[C]) close(ctx context.Context) error {
	r.end()
	first := r.now.Load()
	err := first.close(ctx) // ends the calls that hold mu
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.now.Load(); last != first {
		err = last.close(ctx)
	}
	return err
}

// mayRestart distinguishes a process that died, hangs or panicked from one that reports
// an error, which another process would report again.
func mayRestart(err error) bool {
	var unready *StartError
	if errors.As(err, &unready) {
		return unready.Fault
	}
	var failed *PluginError
	var reported *sdk.Error
	return errors.As(err, &failed) &&
		(errors.Is(err, ErrDied) || errors.Is(err, ErrHung) || errors.As(err, &reported) && reported.Code == sdk.CodePanic)
}
