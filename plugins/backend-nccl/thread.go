package nccl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// budget is how long a library call may continue after it should have ended.
// ncclCommAbort and ncclCommDestroy are known to hang if peers are gone; then only the
// thread hangs, not the caller.
const budget = 2 * time.Second

var errStuck = errors.New("a call into NCCL or CUDA does not return; end the process")

// thread is the one thread that calls CUDA and NCCL: a current context belongs
// to a thread, and a communicator takes one call at a time.
type thread struct {
	jobs chan func()
	done chan struct{}
}

func startThread() *thread {
	t := &thread{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its context with it
		defer close(t.done)
		for f := range t.jobs {
			f()
		}
	}()
	return t
}

// run calls f on the thread and waits for it, at most budget longer than any
// of the contexts lasts. After errStuck, f is still running and the thread is lost.
func (t *thread) run(f func() error, until ...context.Context) error {
	over := make(chan struct{})
	var once sync.Once
	for _, ctx := range until {
		defer context.AfterFunc(ctx, func() {
			time.AfterFunc(budget, func() { once.Do(func() { close(over) }) })
		})()
	}
	result := make(chan error, 1)
	select {
	case t.jobs <- func() { result <- f() }:
	case <-over:
		return errStuck
	}
	select {
	case err := <-result:
		return err
	case <-over:
		return errStuck
	}
}

// stop ends the thread after its current call.
func (t *thread) stop() { close(t.jobs) }
