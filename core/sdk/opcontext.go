package sdk

import (
	"context"
	"sync"
	"time"
)

// opContext is the context of one operation: it ends at a deadline, with its parent,
// or when the operation ends. If a method never calls Done, for example because it
// waits with its own deadlines, the context needs no timer and no memory, and is
// reused.
type opContext struct {
	context.Context // the parent, which has the values
	deadline        time.Time
	limited         bool

	mu    sync.Mutex
	done  chan struct{} // nil until Done is called
	err   error
	timer *time.Timer
	loose func() bool // from the parent
}

// begin starts an operation; a timeout of 0 is none.
func (c *opContext) begin(parent context.Context, timeout time.Duration) {
	c.Context, c.limited, c.err = parent, timeout > 0, nil
	if c.limited {
		c.deadline = time.Now().Add(timeout)
	}
}

// end is called when the operation has ended. It reports whether the context can be
// reused, since it is not waited for.
func (c *opContext) end() (unused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		return true
	}
	c.finish(context.Canceled)
	return false
}

// Deadline implements context.Context.
func (c *opContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && (!c.limited || d.Before(c.deadline)) {
		return d, true
	}
	return c.deadline, c.limited
}

// Done implements context.Context.
func (c *opContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	if c.limited {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.stop(context.DeadlineExceeded) })
	}
	c.loose = context.AfterFunc(c.Context, func() { c.stop(c.Context.Err()) })
	return c.done
}

func (c *opContext) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(err)
}

// finish keeps the first reason.
func (c *opContext) finish(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.loose()
}

// Err implements context.Context.
func (c *opContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.Context.Err() != nil:
		return c.Context.Err()
	case c.done == nil && c.limited && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}
