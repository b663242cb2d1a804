package launch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
)

// Ranks on goroutines connect to the store, write events and output, and end.
func TestThreadsRun(t *testing.T) {
	events := make(chan string, 8)
	res, log := run(t, Options{Nproc: 2, OnEvent: func(rank int, line []byte) { events <- fmt.Sprintf("%d %s", rank, line) }, Thread: func(ctx context.Context, p Place) int {
		c, err := rank.Join(ctx, p.World, rank.JoinOptions{Secret: p.Secret, Env: func(name string) (string, bool) { return p.Store, name == rank.EnvStore }})
		if err != nil {
			fmt.Fprintln(p.Log, err)
			return ExitFailed
		}
		defer c.Close()
		if _, err := c.Gather(ctx, "here", p.World.Rank, p.World.Size, []byte{1}); err != nil {
			return ExitFailed
		}
		fmt.Fprintln(p.Log, "says rank", p.World.Rank)
		fmt.Fprintln(p.Events, `{"kind":"here"}`)
		return ExitOK
	}})
	if res.ExitCode != ExitOK || !strings.Contains(log, "[rank 1] says rank 1") || len(events) != 2 {
		t.Errorf("%+v, %d events\n%s", res, len(events), log)
	}
}

// A rank that fails ends the others through their contexts, and is the root cause with its output. A
// restart starts all of them again.
func TestThreadsFail(t *testing.T) {
	res, log := run(t, Options{Nproc: 3, MaxRestarts: 1, Grace: time.Second, Thread: func(ctx context.Context, p Place) int {
		if p.World.Rank == 1 {
			fmt.Fprintln(p.Log, "error: out of luck")
			return ExitFailed
		}
		<-ctx.Done()
		return ExitTerminated
	}})
	f := res.Failure()
	if f == nil || f.Root.Rank != 1 || f.Root.PID != os.Getpid() || len(f.Stopped) != 2 || res.Restarts != 1 || !strings.Contains(strings.Join(f.Root.LastLines, "\n"), "out of luck") {
		t.Errorf("%+v %+v\n%s", res, f, log)
	}
}

// Signals reach ranks on goroutines: one asks for a checkpoint, another to end.
func TestThreadsAreSignalled(t *testing.T) {
	signals := make(chan os.Signal, 2)
	reported := func(int, []byte) { signals <- SaveSignal }
	res, log := run(t, Options{Nproc: 1, Grace: 20 * time.Second, Signals: signals, OnEvent: reported, Thread: func(ctx context.Context, p Place) int {
		fmt.Fprintln(p.Events, `{"kind":"phase","phase":"train"}`)
		for p.SaveAsked() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return ExitPreempted
	}})
	if res.ExitCode != ExitPreempted || res.Signal != syscall.SIGTERM {
		t.Errorf("%+v\n%s", res, log)
	}
}
