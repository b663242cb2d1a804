package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// Place is what a rank on a goroutine gets where a process has an environment, descriptors and
// signals.
type Place struct {
	World  rank.World
	Store  string        // host:port of the ranks' store
	Secret secret.Secret // of the ranks
	Joins  bool          // the job has begun: the rank joins it

	// Events is what EventFile is for a process. The launcher closes it.
	Events *os.File
	// Log takes the output of the rank. It is used by one goroutine at a time.
	Log io.Writer
	// SaveAsked counts the requests to save a checkpoint after the current step.
	SaveAsked func() int64
}

// body is what a rank runs in: a process or a goroutine.
type body interface {
	pid() int
	// wait returns when it has ended, with its exit code, or -1 and the signal that ended it.
	wait() (code int, sig syscall.Signal)
	signal(syscall.Signal)
	kill()
	usage() *os.ProcessState // nil: unknown
}

// thread is a rank on a goroutine. Nobody can end a goroutine from outside: it is asked to by its
// context, and left behind if it does not.
type thread struct {
	cancel context.CancelCauseFunc
	saves  atomic.Int64
	done   chan struct{}
	killed chan struct{}
	code   int
	left   func(time.Duration) // reports that it is left behind
	asked  atomic.Bool         // to end at once
}

// patience is how long a rank on a goroutine may take to end after it was asked to end at once.
const patience = 30 * time.Second

// startThread starts one rank on a goroutine. events is the end of the pipe that it writes to.
func (l *launcher) startThread(w *worker, p Place) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &thread{cancel: cancel, done: make(chan struct{}), killed: make(chan struct{})}
	t.left = func(d time.Duration) {
		l.sink.printf("rank %d has not ended within %v and cannot be killed, because it is a goroutine of this process", w.world.Rank, d)
	}
	lines := &splitter{out: w.log.piece}
	p.Log, p.SaveAsked = lines, t.saves.Load
	w.body = t
	go func() {
		defer close(t.done)
		defer p.Events.Close()
		defer lines.flush()
		t.code = l.o.Thread(ctx, p)
	}()
}

func (t *thread) pid() int { return os.Getpid() }

func (t *thread) wait() (int, syscall.Signal) {
	defer t.cancel(nil)
	select {
	case <-t.done:
		return t.code, 0
	case <-t.killed:
	}
	select {
	case <-t.done:
		return t.code, 0
	case <-time.After(patience):
		t.left(patience)
		return -1, syscall.SIGKILL
	}
}

func (t *thread) signal(s syscall.Signal) {
	if s == SaveSignal {
		t.saves.Add(1)
		return
	}
	t.cancel(fmt.Errorf("the rank was asked to end: %v", s))
}

func (t *thread) kill() {
	t.signal(syscall.SIGTERM)
	if t.asked.CompareAndSwap(false, true) {
		close(t.killed)
	}
}

func (t *thread) usage() *os.ProcessState { return nil }
