package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/rank"
)

// launcher is one call of Run.
type launcher struct {
	o       Options
	host    string
	sink    *sink
	spawner *spawner
	signals <-chan os.Signal
	late    os.Signal // came when an attempt had failed
	nodes   *nodes    // nil on a single node
	layout  layout

	rejoined int  // ranks of this node that were started again in a run that went on
	again    bool // this node had lost the others: its ranks join the run

	lifeline, lifelineEnd *os.File // read end for the ranks; the other end is never written to
	oom                   int      // the kernel's out-of-memory kills before the run

	events sync.Mutex // one OnEvent at a time
}

// Run starts the ranks of this node, watches them until they end, and restarts
// them while restarts are left and could help. When it returns, no process that
// it started and no goroutine is left.
//
// When ranks fail, Run returns a Result with the exit code and the Failure, and a
// nil error; the caller prints the failure. The error is for failures of the
// launcher itself: invalid options, processes that cannot be started, launchers
// that do not meet, a cancelled ctx.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.filled()
	if err != nil {
		return Result{ExitCode: ExitConfig}, err
	}
	l := &launcher{o: o, host: hostname(), sink: &sink{w: o.Log}, oom: cgroup.OOMKills()}
	l.lifeline, l.lifelineEnd, err = os.Pipe()
	if err != nil {
		return Result{ExitCode: ExitFailed}, fmt.Errorf("lifeline: %w", err)
	}
	defer l.lifeline.Close()
	defer l.lifelineEnd.Close()
	defer l.catchSignals()()
	ownChildren.enter()
	defer ownChildren.leave()
	l.spawner = newSpawner()
	defer l.spawner.close()
	sig, err := l.interruptible(ctx, l.meet)
	if sig != nil {
		return Result{ExitCode: signalExit(sig), Signal: sig}, nil
	}
	if err != nil {
		return Result{ExitCode: meetingCode(err)}, err
	}
	defer func() { l.nodes.close() }()
	return l.attempts(ctx)
}

func (l *launcher) catchSignals() (stop func()) {
	if l.o.Signals != nil {
		l.signals = l.o.Signals
		return func() {}
	}
	l.signals, stop = CatchSignals()
	return stop
}

// CatchSignals catches the signals that a launcher acts on, for Options.Signals. A
// caller that creates temporary files calls it before it creates them. The caller
// calls stop at the very end; for five seconds after it the signals are ignored.
func CatchSignals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, append(StopSignals(), SaveSignal)...)
	return c, func() { time.AfterFunc(ignoreSignalsFor, func() { signal.Stop(c) }) }
}

// ignoreSignalsFor is how long signals are ignored after the run has ended, while the
// caller reports the result and cleans up.
const ignoreSignalsFor = 5 * time.Second

// StopSignals ask a run to save and end: SIGINT, SIGTERM, and SIGHUP from a
// terminal that was closed, unless nohup made the process ignore it.
func StopSignals() []os.Signal {
	s := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		s = append(s, syscall.SIGHUP)
	}
	return s
}

// SaveSignal asks a run to save a checkpoint and to continue, or to end after
// that with Options.Requeue.
const SaveSignal = syscall.SIGUSR1

// interruptible runs f, which must return when its ctx is cancelled, until it
// ends or a signal comes. No ranks run yet that would need time to save, so the
// first signal is enough.
func (l *launcher) interruptible(ctx context.Context, f func(context.Context) error) (os.Signal, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for {
		select {
		case err := <-done:
			return nil, err
		case s := <-l.signals:
			if s == SaveSignal && !l.o.Requeue {
				l.sink.printf("%v: there is nothing to save yet", s)
				continue
			}
			cancel()
			return s, <-done
		}
	}
}

// signalExit is the shell's convention.
func signalExit(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return ExitFailed
}

// meet learns the other nodes' numbers of ranks.
func (l *launcher) meet(ctx context.Context) error {
	if l.o.Nodes == 1 && l.o.Least == 0 {
		l.layout = newLayout([]nodeInfo{{Host: l.host, Nproc: l.o.Nproc}})
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.o.RendezvousTimeout)
	defer cancel()
	var err error
	meet := meetNodes
	if l.o.Least > 0 {
		meet = joinNodes
	}
	if l.nodes, l.layout, err = meet(ctx, l.o, l.host, l.sink); err != nil {
		return err
	}
	l.o.NodeRank, l.o.LogDir = l.nodes.o.NodeRank, l.nodes.o.LogDir
	if l.layout.begins || l.o.Briefed == nil {
		return nil
	}
	l.again = l.o.Etcd != nil && l.o.NodeRank == 0 // it has the number of a node that is gone
	if l.o.LogDir, err = l.o.Briefed(l.layout.brief, l.o.NodeRank); err != nil {
		l.nodes.close()
	}
	return err
}

func meetingCode(err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return ExitTerminated
	case errors.As(err, new(*SettingsError)), errors.As(err, new(*rank.SecretError)), usererr.Problems(err) != nil:
		return ExitConfig
	case errors.As(err, new(*fs.PathError)):
		return ExitFailed // of Briefed
	}
	return ExitRendezvous
}

func (l *launcher) attempts(ctx context.Context) (Result, error) {
	var res Result
	for n := 0; ; n++ {
		end, err := l.attempt(ctx, n)
		res.Restarts, res.ExitCode, res.Signal, res.Hosts = n, end.code, end.signal, l.hosts()
		if end.failure != nil {
			res.Failures = append(res.Failures, end.failure)
		}
		if end.cut && err == nil {
			if sig, err := l.rejoin(ctx); sig != nil || err != nil {
				return l.lostForGood(res, sig, err)
			}
			n--
			continue
		}
		if err != nil || end.failure == nil || l.o.Least > 0 || !end.again || n+l.rejoined >= l.o.MaxRestarts {
			return res, err
		}
		if sig := l.late; sig != nil {
			l.sink.printf("%v: no restart", sig)
			l.nodes.report(n+1, &stopReason{Node: l.o.NodeRank, Signal: int(sig.(syscall.Signal))})
			res.ExitCode, res.Signal = signalExit(sig), sig
			return res, nil
		}
		l.sink.printf("restart %d of %d: %s", n+1, l.o.MaxRestarts, end.failure.Root.brief())
	}
}

func (c Cause) brief() string {
	switch {
	case c.Rank < 0:
		return c.Message
	case c.Signal != "":
		return fmt.Sprintf("rank %d was ended by %s", c.Rank, c.Signal)
	}
	if c.ExitCode == ExitOK {
		return fmt.Sprintf("rank %d ended before its work was done", c.Rank)
	}
	return fmt.Sprintf("rank %d ended with exit code %d", c.Rank, c.ExitCode)
}

// worlds are this node's ranks in attempt n.
func (l *launcher) worlds(n int, masterAddr string, masterPort int) []rank.World {
	ws := make([]rank.World, l.o.Nproc)
	for i := range ws {
		ws[i] = rank.World{
			Rank: l.layout.first[l.o.NodeRank] + i, Size: l.layout.size, LocalRank: i, LocalSize: l.o.Nproc,
			NodeRank: l.o.NodeRank, Nodes: l.o.Nodes, MasterAddr: masterAddr, MasterPort: masterPort,
			RunID: l.o.RunID, RestartCount: n, MaxRestarts: l.o.MaxRestarts, Source: "trainctl",
		}
	}
	return ws
}

func newRunID() string {
	b := make([]byte, 6)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown-host"
	}
	return h
}
