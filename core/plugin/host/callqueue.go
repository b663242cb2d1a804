package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// callQueue runs the operations as calls from its own goroutine: over gRPC for the
// inline data plane, directly for an instance in this process.
type callQueue struct {
	exec  func(ctx context.Context, op *operation, scale *sdk.ScaleState) error
	owner owner
	// grace is how much earlier an operation's own deadline is than the queue's;
	// 0 = the callee enforces the deadline.
	grace time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // the goroutine is gone

	mu        sync.Mutex
	cond      sync.Cond
	submitted uint64
	done      uint64
	closed    bool
	late      error // set when an operation takes too long
	timer     *time.Timer
	timeout   time.Duration
	ops       [shm.Slots]operation
	results   [shm.Slots]result
	broken    breakage
}

type result struct {
	ticket uint64
	err    error
	scale  sdk.ScaleState
	span   pb.Span
}

// owner is the process or instance that runs the queue's operations.
type owner interface {
	error(phase string, err error) error // wraps an error for callers
	name(op *operation) string           // of an operation, for messages
	failure() error                      // nil while the owner can be used
	abort(cause error)                   // ends an owner that hangs
}

func newCallQueue(o owner, exec func(context.Context, *operation, *sdk.ScaleState) error, grace time.Duration) *callQueue {
	l := &callQueue{exec: exec, owner: o, grace: grace, ended: make(chan struct{})}
	l.cond.L = &l.mu
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.timer = time.AfterFunc(time.Hour, l.expire)
	l.timer.Stop()
	go l.run()
	return l
}

func (l *callQueue) limit(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeout = d
}

// expire releases the waiters when an operation does not return. The owner is aborted first: who returns from
// waiting may close it, which would seem to fail, and the cancelled call reports a less useful reason.
func (l *callQueue) expire() {
	l.mu.Lock()
	late := l.late
	if late == nil {
		op := &l.ops[(l.done+1)%shm.Slots]
		late = fmt.Errorf("%w: %s takes longer than %v", ErrHung, l.owner.name(op), l.timeout)
	}
	l.mu.Unlock()
	l.owner.abort(late)
	l.mu.Lock()
	l.late = late
	l.cond.Broadcast()
	l.mu.Unlock()
	l.cancel()
}

func (l *callQueue) submit(op *operation) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.usable(op); err != nil {
			return 0, err
		}
		if l.submitted-l.done < shm.Slots {
			break
		}
		l.cond.Wait()
	}
	l.submitted++
	t := l.submitted
	l.ops[t%shm.Slots] = *op
	l.results[t%shm.Slots] = result{ticket: t}
	l.cond.Broadcast()
	return t, nil
}

func (l *callQueue) usable(op *operation) error {
	switch {
	case l.closed:
		return l.owner.error(l.owner.name(op), ErrClosed)
	case l.late != nil:
		return l.owner.error(l.owner.name(op), l.late)
	}
	if err := l.owner.failure(); err != nil {
		return l.owner.error(l.owner.name(op), err)
	}
	return nil
}

func (l *callQueue) wait(ticket uint64, scale *sdk.ScaleState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.done < ticket {
		if err := l.usable(&l.ops[ticket%shm.Slots]); err != nil {
			return err
		}
		l.cond.Wait() // the operation in flight ends when the process does
	}
	r := &l.results[ticket%shm.Slots]
	if r.ticket != ticket { // long ago
		return l.broken.of(ticket)
	}
	if scale != nil {
		*scale = r.scale
	}
	return r.err
}

func (l *callQueue) span(ticket uint64) (pb.Span, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.results[ticket%shm.Slots]
	return r.span, r.ticket == ticket && l.done >= ticket && r.span.Begin != 0
}

func (l *callQueue) run() {
	defer close(l.ended)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for l.done == l.submitted && !l.closed {
			l.cond.Wait()
		}
		if l.closed {
			return
		}
		t := l.done + 1
		op, r := &l.ops[t%shm.Slots], &l.results[t%shm.Slots]
		if op.timed {
			r.span.Begin = time.Now().UnixNano()
		}
		err := l.one(op, &r.scale)
		if op.timed {
			r.span.End = time.Now().UnixNano()
		}
		if err != nil {
			r.err = l.owner.error(l.owner.name(op), err)
			l.broken.note(t, r.err)
		}
		l.done = t
		l.cond.Broadcast()
	}
}

// one runs one operation without mu, which is held on entry and return.
func (l *callQueue) one(op *operation, scale *sdk.ScaleState) error {
	ctx, cancel := l.ctx, context.CancelFunc(func() {})
	if l.timeout > 0 {
		l.timer.Reset(l.timeout)
		if l.grace > 0 {
			ctx, cancel = context.WithTimeout(l.ctx, l.timeout-l.grace)
		}
	}
	l.mu.Unlock()
	err := l.exec(ctx, op, scale)
	cancel()
	l.timer.Stop()
	l.mu.Lock()
	return err
}

// close cancels the context of the operation in flight and waits for it. An
// operation that does not return then is abandoned.
func (l *callQueue) close() {
	l.mu.Lock()
	l.closed = true
	l.cond.Broadcast()
	l.mu.Unlock()
	l.cancel()
	select {
	case <-l.ended:
	case <-time.After(margin):
	}
}

var _ queue = (*callQueue)(nil)
