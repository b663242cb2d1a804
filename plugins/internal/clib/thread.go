package clib

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Budget is how long a library call may continue after it should have ended. Calls such as
// ncclCommAbort and MPI_Finalize are known to hang if peers are gone; then only the
// thread hangs, not the caller.
const Budget = 2 * time.Second

// ErrStuck is wrapped by the error of a call that does not return.
var ErrStuck = errors.New("does not return; end the process")

// Thread is the one operating system thread that calls a library.
type Thread struct {
	library string
	jobs    chan func()
	done    chan struct{}
}

// StartThread starts the thread. The library's name is for messages: "NCCL or CUDA".
func StartThread(library string) *Thread {
	t := &Thread{library: library, jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and what the library keeps for it
		defer close(t.done)
		for f := range t.jobs {
			f()
		}
	}()
	return t
}

// Run calls f on the thread and waits for it, at most [Budget] longer than any
// of the contexts lasts. After [ErrStuck], f is still running and the thread is lost.
func (t *Thread) Run(f func() error, until ...context.Context) error {
	over := make(chan struct{})
	var once sync.Once
	for _, ctx := range until {
		defer context.AfterFunc(ctx, func() {
			time.AfterFunc(Budget, func() { once.Do(func() { close(over) }) })
		})()
	}
	result := make(chan error, 1)
	select {
	case t.jobs <- func() { result <- f() }:
	case <-over:
		return t.stuck()
	}
	select {
	case err := <-result:
		return err
	case <-over:
		return t.stuck()
	}
}

func (t *Thread) stuck() error { return fmt.Errorf("a call into %s %w", t.library, ErrStuck) }

// Stop ends the thread after its current call.
func (t *Thread) Stop() { close(t.jobs) }

// Done is closed when the thread has ended.
func (t *Thread) Done() <-chan struct{} { return t.done }
