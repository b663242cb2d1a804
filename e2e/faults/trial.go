//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// trial is one run of a case. It is a tester: the helpers of tests serve both.
type trial struct {
	ctx context.Context
	dir string

	mu       sync.Mutex
	dirs     int
	log      []string
	reason   string // of the first failure, or of skipping
	failed   bool
	skipped  bool
	happened []string
	cleanups []func()
}

// Helper implements tester.
func (*trial) Helper() {}

// Context ends with the time of the case.
func (t *trial) Context() context.Context { return t.ctx }

// TempDir is a new directory that goes with the case.
func (t *trial) TempDir() string {
	t.mu.Lock()
	t.dirs++
	dir := filepath.Join(t.dir, fmt.Sprint(t.dirs))
	t.mu.Unlock()
	rig.Must(t, os.MkdirAll(dir, 0o755))
	return dir
}

// Cleanup runs f after the case, the last one first.
func (t *trial) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Logf notes what helps with a failure.
func (t *trial) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

// Errorf fails the case and continues. The first line of the first failure is
// what the table shows.
func (t *trial) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failed {
		t.failed = true
		t.reason, _, _ = strings.Cut(text, "\n")
	}
	t.log = append(t.log, text)
}

// Error is Errorf of values.
func (t *trial) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

// Fatalf fails the case and ends it.
func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Fatal is Fatalf of values.
func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

// Failed says whether the case failed so far.
func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// skip ends the case because this machine lacks something.
func (t *trial) skip(format string, args ...any) {
	t.mu.Lock()
	t.skipped, t.reason = true, fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// saw adds to what the table says has happened.
func (t *trial) saw(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.happened = append(t.happened, fmt.Sprintf(format, args...))
}

// tidy is how long a case may go on after its time, to clean up.
const tidy = 20 * time.Second

// try runs a case within its time, then looks for what it has left behind.
func (f fault) try(ctx context.Context, dir string) outcome {
	res := outcome{Case: f.number, Fault: f.name, Promise: f.promise, Outcome: "passed"}
	for _, n := range f.needs {
		if lack := n(); lack != "" {
			res.Outcome, res.Reason = "skipped", lack
			return res
		}
	}
	limit := f.limit
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	before := takeInventory(dir)
	t := &trial{ctx: ctx, dir: dir}
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.perform(f.run, cancel)
	}()
	select {
	case <-done:
	case <-time.After(limit + tidy):
		t.Errorf("the case did not end within %v", limit+tidy)
	}
	res.Seconds = time.Since(began).Seconds()
	before.compare(t, min(limit, 30*time.Second))
	_ = os.RemoveAll(dir)
	return t.conclude(res)
}

// perform runs the case and its cleanups, also after a panic or a Fatal.
func (t *trial) perform(run func(*trial), cancel func()) {
	part := func(f func()) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			f()
		}()
		<-ended
	}
	part(func() { run(t) })
	cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		part(last)
	}
}

func (t *trial) conclude(res outcome) outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	res.Happened = strings.Join(t.happened, "; ")
	switch {
	case t.failed:
		res.Outcome, res.Reason, res.Log = "failed", t.reason, strings.Join(t.log, "\n")
	case t.skipped:
		res.Outcome, res.Reason = "skipped", t.reason
	}
	return res
}

// soon asserts a bound on how long something took, and notes it.
func (t *trial) soon(what string, took, limit time.Duration) {
	if took > limit {
		t.Errorf("%s after %v, promised within %v", what, took.Round(time.Millisecond), limit)
	}
	t.saw("%s after %.2f s", what, took.Seconds())
}

// ended notes an exit code and asserts it.
func (t *trial) ended(r rig.Result, code int) rig.Result {
	r.Expect(t, code)
	t.saw("exit %d", code)
	return r
}
