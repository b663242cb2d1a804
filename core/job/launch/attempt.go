package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
)

// afterFailure is how long the others may live once one rank has failed, and
// how long the launcher waits for the rank that another rank blames to end.
const afterFailure = time.Second

// afterBlame is how long the others may live once a rank has failed because of another one,
// which may be about to say why: on a busy machine, ending its plugins takes seconds.
const afterBlame = 5 * time.Second

// ending is how an attempt ended on all nodes.
type ending struct {
	code    int
	failure *Failure
	signal  os.Signal
	again   bool // a restart may help
	cut     bool // from node 0, in a range of nodes: this node may join again
}

// attempt is one start of the group on this node. Its fields belong to the
// goroutine that runs watch.
type attempt struct {
	l       *launcher
	n       int
	store   *groupStore
	worlds  []rank.World // of this node
	workers []*worker    // without those that the others went on without
	alive   map[*worker]bool
	before  map[int]bool // children of this process that are no ranks' descendants
	exits   chan exit

	blaming     *exit // of the first rank that failed because of another one
	blameTimer  <-chan time.Time
	stopReason  *stopReason // why it ends, nil while it runs or when all went well
	root        *exit       // of the rank that stopReason is about, if it is one of this node's
	kill        <-chan time.Time
	killAt      time.Time
	longer      <-chan time.Duration // node 0's grace, on the others
	nodesCtx    context.Context      // of waits for other nodes
	waits       sync.WaitGroup       // for them
	ended       []exit               // after stopReason was set
	killed      bool                 // ranks that were left got no more time
	completed   bool                 // the ranks of all nodes had done their work when a signal came
	firstSignal time.Time            // zero: none came
	finishing   sync.WaitGroup       // reads the last output of ranks that are not in workers any more
}

// attempt runs the group once. The error says why it could not be run at all.
func (l *launcher) attempt(ctx context.Context, n int) (ending, error) {
	a := &attempt{l: l, n: n, alive: map[*worker]bool{}, exits: make(chan exit, l.o.Nproc)}
	defer func() { a.store.close() }()
	sig, err := l.interruptible(ctx, a.prepare)
	a.before = ownChildren.unregistered() // also what Prepare started
	switch {
	case sig != nil:
		l.nodes.report(n, &stopReason{Node: l.o.NodeRank, Signal: int(sig.(syscall.Signal))})
		return ending{code: signalExit(sig), signal: sig}, nil
	case err == nil:
		err = a.start()
	}
	if err != nil {
		l.nodes.report(n, &stopReason{Node: l.o.NodeRank, Failure: a.launcherFailed(err)})
		a.stopReason = &stopReason{}
		a.stop(0)
	}
	a.watch(ctx)
	if left := ownChildren.killOrphans(a.before); len(left) > 0 {
		pids := strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(left))), "[]")
		l.sink.printf("killed processes that the ranks left behind: pid %s", strings.ReplaceAll(pids, " ", ", "))
	}
	for _, w := range a.workers {
		w.finish()
	}
	a.finishing.Wait()
	if err != nil {
		return ending{code: failedCode(err)}, err
	}
	return a.ending(), ctx.Err()
}

// prepare opens the store and gets the caller ready.
func (a *attempt) prepare(ctx context.Context) (err error) {
	if a.store, err = a.l.openStore(ctx, a.n); err != nil {
		return err
	}
	a.worlds = a.l.worlds(a.n, a.store.host, a.store.port)
	return a.l.o.Prepare(ctx, a.n, a.worlds)
}

// failedCode is the exit code when an attempt could not be run.
func failedCode(err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return ExitTerminated
	case errors.As(err, new(*rank.TimeoutError)), errors.As(err, new(*rank.PeerLeftError)), errors.Is(err, rank.ErrStoreLost):
		return ExitRendezvous
	}
	return ExitFailed
}

func (a *attempt) start() error {
	for _, w := range a.worlds {
		if err := a.startRank(w, a.l.again); err != nil {
			return err
		}
	}
	return nil
}

// env is the environment of a rank.
func (a *attempt) env(w rank.World, joins bool) []string {
	env := rank.WorkerEnv(w, rank.WorkerSettings{Store: a.store.addr(), Threads: a.l.o.Threads, Inherited: os.LookupEnv})
	if joins {
		env = append(env, rank.EnvJoins+"=1")
	}
	return env
}

// watch runs until every rank of this node has ended and, if none failed, until
// those of the other nodes have ended too.
func (a *attempt) watch(ctx context.Context) {
	nodesCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.nodesCtx = nodesCtx
	defer a.waits.Wait()
	defer cancel()
	remote := a.l.nodes.listen(nodesCtx, &a.waits, a.n)
	var done <-chan *stopReason
	var completed <-chan bool
	gone := ctx.Done()
	for {
		if len(a.alive) == 0 {
			a.blameReporter()
			switch {
			case a.stopReason == nil && a.l.nodes != nil:
				if done == nil {
					done = a.l.nodes.done(nodesCtx, &a.waits, a.n, a.store.hosted())
				}
			case !a.asksNodes() || completed != nil && a.killed:
				return
			case completed == nil:
				completed = a.l.nodes.completed(nodesCtx, &a.waits, a.n, a.completedHere())
			}
		}
		select {
		case a.completed = <-completed:
			return
		case e := <-a.exits:
			a.exited(e)
		case s := <-a.l.signals:
			a.interrupted(s)
		case v := <-remote:
			a.stopFor(v)
			remote = nil
		case v := <-done:
			if v == nil {
				a.completed = true
				return
			}
			a.stopFor(v)
		case <-gone:
			gone = nil
			a.drain(syscall.SIGTERM) // a caller may cancel ctx on a signal that also reaches us: that is not a second signal
		case <-a.blameTimer:
			a.blameReporter()
		case d := <-a.store.lost():
			a.expelled(d)
		case m := <-a.store.moves():
			a.moved(m)
		case <-a.l.nodes.ousted():
			a.stopFor(a.l.nodes.cut(a.n))
		case d := <-a.longer:
			a.extend(d)
		case <-a.kill:
			a.killAll()
		}
	}
}

// exited records the end of one rank. The first failure is the root cause,
// unless that rank failed because of another one.
func (a *attempt) exited(e exit) {
	delete(a.alive, e.w)
	switch {
	case a.stopReason != nil:
		a.ended = append(a.ended, e)
	case e.code == ExitPeer && a.blaming == nil && !a.leaves(e):
		a.blaming, a.blameTimer = &e, time.After(min(a.l.o.Grace, afterFailure))
	case e.code == ExitPeer && !a.leaves(e):
		a.ended = append(a.ended, e)
	case a.leaves(e):
		a.left(e)
	case e.bad():
		a.failed(e)
	}
}

// blameReporter makes the failure of the rank that blames another one the root cause:
// the rank it blames does not end, perhaps because it hangs or runs on another
// node.
func (a *attempt) blameReporter() {
	if a.blaming == nil || a.stopReason != nil {
		return
	}
	e := *a.blaming
	a.blaming = nil
	a.failed(e)
}

// earliest checks whether another rank failed before e: several exits may be
// queued, and the channel does not keep them in the order of time.
func (a *attempt) earliest(e exit) exit {
	for {
		select {
		case o := <-a.exits:
			delete(a.alive, o.w)
			if o.bad() && o.code != ExitPeer && (e.code == ExitPeer || o.at.Before(e.at)) {
				o, e = e, o
			}
			a.ended = append(a.ended, o)
		default:
			return e
		}
	}
}

func (a *attempt) failed(e exit) {
	e = a.earliest(e)
	if a.blaming != nil {
		a.ended = append(a.ended, *a.blaming)
		a.blaming = nil
	}
	grace := min(a.l.o.Grace, afterFailure)
	switch {
	case e.code == ExitPreempted:
		grace = a.grace() // the others are saving as well
	case e.code == ExitPeer && a.l.nodes == nil:
		grace = min(a.l.o.Grace, afterBlame) // see correct
	}
	f := &Failure{Job: a.l.o.Name, Attempt: a.n, MaxRestarts: a.l.o.MaxRestarts, Root: e.cause(a.l.host, a.l.oom)}
	if step, _ := e.w.place(); a.l.o.Least > 0 && !a.l.mayFail() && step >= 0 && len(a.alive) == 0 && restartHelps(e.code) {
		a.l.sink.printf("the job ends with the last rank of node 0, which hosts the job's store; fix: launch.max_restarts starts other ranks in place of those that die, and with launch.rdzv_backend = \"etcd\" the other nodes go on")
	}
	a.root = &e
	a.stopReason = &stopReason{Node: a.l.o.NodeRank, Failure: f}
	if a.l.mayFail() && e.code != ExitPreempted {
		a.l.nodes.leaves = true
		a.killAll() // the other nodes go on
		f.Root.addOutput(e.w)
		return
	}
	a.stop(grace)
	f.Root.addOutput(e.w)
	a.stopReason = a.l.nodes.report(a.n, a.stopReason)
	if e.code == ExitPreempted {
		a.shareGrace()
	}
}

// sameRequest is the time within which signals count as one request: timeout(1)
// signals its child and then the whole group, and at a logout both the shell and
// the terminal send SIGHUP.
const sameRequest = 300 * time.Millisecond

// interrupted forwards the first signal, so that the ranks save and drain, and
// kills them at the second.
func (a *attempt) interrupted(s os.Signal) {
	if s == SaveSignal && !a.l.o.Requeue {
		a.saveNow()
		return
	}
	switch {
	case a.firstSignal.IsZero():
		a.drain(s)
		a.firstSignal = time.Now() // what has come meanwhile is part of the request, however long draining took
	case time.Since(a.firstSignal) > sameRequest:
		a.killAll()
	}
}

// saveNow asks the ranks of this node to save; one would be enough, since they
// save together. A rank that has not reported anything does not catch the signal
// yet.
func (a *attempt) saveNow() {
	a.l.sink.printf("%v: the ranks save a checkpoint after the current step and continue", SaveSignal)
	for w := range a.alive {
		if w.hasReported() {
			w.body.signal(SaveSignal)
		}
	}
}

// grace is how long the ranks may save.
func (a *attempt) grace() time.Duration { return max(a.l.o.Grace, a.l.o.Saving()) }

func (a *attempt) drain(s os.Signal) {
	if a.stopReason != nil {
		a.l.late = s // the ranks are being stopped already; they are not restarted
		return
	}
	sig, _ := s.(syscall.Signal)
	if a.l.mayLeave() {
		a.leaveJob(s)
		return
	}
	a.l.sink.printf("%v: the ranks have %v to save a checkpoint and end; press Ctrl-C again to kill them", s, a.grace())
	a.stopReason = &stopReason{Node: a.l.o.NodeRank, Signal: int(sig), Grace: a.grace()}
	a.stop(a.grace())
	a.stopReason = a.l.nodes.report(a.n, a.stopReason)
	a.shareGrace()
}

// shareGrace gives all nodes the grace of node 0. Only rank 0 knows how long
// saves take, and the other ranks wait until it has saved.
func (a *attempt) shareGrace() {
	switch {
	case a.l.nodes == nil || a.nodesCtx == nil:
	case a.l.hosts():
		a.l.nodes.offerGrace(a.n, a.grace())
	default:
		a.longer = a.l.nodes.awaitGrace(a.nodesCtx, &a.waits, a.n)
	}
}

// extend gives the ranks until d after they were asked to end, if that is later
// than the current deadline.
func (a *attempt) extend(d time.Duration) {
	if more := d - a.grace(); more > 0 && a.kill != nil {
		a.killAt = a.killAt.Add(more)
		a.kill = time.After(time.Until(a.killAt))
	}
}

// stopFor ends the attempt because another node reported a reason.
func (a *attempt) stopFor(v *stopReason) {
	if a.stopReason != nil {
		return
	}
	a.stopReason = v
	a.store.hosting.stay()
	if v.cut { // ranks that still reach the others must not ask them to stop
		a.killAll()
		return
	}
	grace := min(a.l.o.Grace, afterFailure)
	saving := v.Signal != 0 || v.Failure.Root.ExitCode == ExitPreempted
	if saving {
		grace = max(a.grace(), v.Grace)
	}
	a.stop(grace)
	if saving {
		a.shareGrace()
	}
}

func (a *attempt) stop(grace time.Duration) {
	for w := range a.alive {
		w.body.signal(syscall.SIGTERM)
	}
	a.killAt = time.Now().Add(grace)
	a.kill = time.After(grace)
}

func (a *attempt) killAll() {
	a.killed = true
	for w := range a.alive {
		w.body.kill()
	}
}

// ending returns how the attempt ended.
func (a *attempt) ending() ending {
	v := a.stopReason
	switch {
	case v != nil && v.cut:
		return ending{code: ExitWorker, failure: v.Failure, cut: true}
	case v == nil:
		return ending{code: ExitOK}
	case v.Failure == nil && (a.completed || a.l.nodes == nil && a.completedHere()):
		return ending{code: ExitOK}
	case v.Failure == nil:
		return a.stopped(syscall.Signal(v.Signal))
	}
	f := v.Failure
	a.correct(f)
	f.Others, f.Stopped = a.followers()
	code := f.Root.ExitCode
	end := ending{code: ExitWorker, failure: f, again: restartHelps(code)}
	switch {
	case passesThrough(code):
		end.code = jobCode(code)
	case f.Root.Rank < 0:
		end.again = false // a node is missing, and the number of nodes is fixed
	}
	return end
}

// correct makes the rank that another one blamed the root cause if it ended after
// the launcher had stopped waiting for it: on a busy machine a process may take
// long to end. In a job of several nodes the others have the first report already.
func (a *attempt) correct(f *Failure) {
	if a.l.nodes != nil || a.root == nil || a.root.code != ExitPeer {
		return
	}
	for i, e := range a.ended {
		if passesThrough(e.code) && !e.stoppedOnRequest() {
			a.ended[i] = *a.root
			f.Root = e.cause(a.l.host, a.l.oom)
			f.Root.addOutput(e.w)
			return
		}
	}
}

// completedHere reports whether all ranks of this node had done their work when a signal came. If those of all
// nodes had, the signal changes nothing.
func (a *attempt) completedHere() bool {
	return a.l.o.Finished != nil && !slices.ContainsFunc(a.ended, exit.bad)
}

// asksNodes reports whether it is for the nodes together to say how the attempt ended: after a signal, in a job
// of a fixed number of nodes.
func (a *attempt) asksNodes() bool {
	return a.stopReason != nil && a.stopReason.Failure == nil && a.stopReason.Signal != 0 && a.l.nodes != nil && a.l.o.Least == 0
}

// stopped returns how an attempt ended after a signal. It was preempted when
// every rank that reports how it ended has saved, and failed when a rank could
// not save or end; after SIGINT the code is always the shell's.
func (a *attempt) stopped(sig syscall.Signal) ending {
	end := ending{code: signalExit(sig), signal: sig, failure: a.saveFailure()}
	saved := slices.ContainsFunc(a.ended, func(e exit) bool { return e.code == ExitPreempted })
	unsaved := slices.ContainsFunc(a.ended, func(e exit) bool { return e.bad() && e.code != ExitPreempted })
	switch {
	case sig == syscall.SIGINT:
	case end.failure != nil:
		end.code = ExitFailed
	case saved && !unsaved:
		end.code = ExitPreempted
	}
	return end
}

// saveFailure is the failure of ranks that were asked to end and failed instead, nil
// where none did. The lowest rank is the root cause: rank 0 saves, and the others
// fail with it.
func (a *attempt) saveFailure() *Failure {
	root := -1
	for i, e := range a.ended {
		if e.stoppedOnRequest() || e.code == ExitPeer {
			continue
		}
		if root < 0 || e.w.world.Rank < a.ended[root].w.world.Rank {
			root = i
		}
	}
	if root < 0 {
		return nil
	}
	e := a.ended[root]
	a.ended = slices.Delete(a.ended, root, root+1)
	f := &Failure{Job: a.l.o.Name, Attempt: a.n, MaxRestarts: a.l.o.MaxRestarts, Root: e.cause(a.l.host, a.l.oom)}
	f.Root.addOutput(e.w)
	f.Others, f.Stopped = a.followers()
	return f
}

// stoppedOnRequest reports whether a rank ended because it was told to.
func (e exit) stoppedOnRequest() bool {
	switch e.code {
	case ExitOK, ExitPreempted, ExitInterrupt, ExitTerminated:
		return true
	}
	return e.sig == syscall.SIGTERM || e.sig == syscall.SIGKILL
}

// followers splits the ranks that ended after the attempt was stopped into those that failed
// and those that ended because they were told to.
func (a *attempt) followers() (others []Cause, stopped []int) {
	for _, e := range a.ended {
		if e.stoppedOnRequest() {
			stopped = append(stopped, e.w.world.Rank)
			continue
		}
		others = append(others, e.cause(a.l.host, -1))
	}
	slices.Sort(stopped)
	return others, stopped
}

// launcherFailed is the failure reported to the other nodes when this one cannot
// start its ranks.
func (a *attempt) launcherFailed(err error) *Failure {
	return &Failure{Job: a.l.o.Name, Attempt: a.n, MaxRestarts: a.l.o.MaxRestarts,
		Root: Cause{Rank: -1, Host: a.l.host, Time: time.Now(), Step: -1,
			Message: fmt.Sprintf("the launcher of node %d could not start its ranks: %v", a.l.o.NodeRank, err)}}
}
