package launch

import (
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
)

// departed is a rank of an elastic job that is no longer connected to the store.
type departed struct {
	rank  int
	since time.Time // when it had connected
}

// gone notes that a rank is no longer connected, because it has died or was silent.
func (s *groupStore) gone(rank int, since time.Time, _ error) {
	select {
	case s.left <- departed{rank, since}:
	default: // it holds more than leave at a time
	}
}

// lost delivers the ranks of an elastic job that are no longer connected.
func (s *groupStore) lost() <-chan departed {
	if s == nil {
		return nil
	}
	return s.left
}

// expelled kills a rank that the others go on without: it may only have been silent.
func (a *attempt) expelled(d departed) {
	a.l.o.Lost(d.rank, a.n)
	for w := range a.alive {
		if w.world.Rank == d.rank && a.stopReason == nil && w.started.Before(d.since) {
			w.killGroup()
		}
	}
}

// leaves reports whether the other ranks go on without one that has ended. Before the first
// step they cannot; one that has joined later is not needed.
func (a *attempt) leaves(e exit) bool {
	step, _ := e.w.place()
	return a.l.o.Elastic && e.bad() && e.code != ExitPreempted && restartHelps(e.code) && (step >= 0 || e.w.joins) && len(a.alive) > 0
}

// left goes on without a rank, and starts another in its place while restarts are left.
func (a *attempt) left(e exit) {
	again := a.l.rejoined+a.n < a.l.o.MaxRestarts
	next := ""
	if again {
		a.l.rejoined++
		next = "; another one is started in its place"
	}
	a.l.sink.printf("%v; %d ranks go on%s", e.cause(a.l.host, a.l.oom).brief(), len(a.alive), next)
	if !again {
		return
	}
	if err := a.startRank(e.w.world, true); err != nil {
		a.l.sink.printf("%v", err)
	}
}

// startRank starts a rank of this node. With joins, the run has begun.
func (a *attempt) startRank(w rank.World, joins bool) error {
	p, err := a.l.startWorker(w, a.env(w, joins), a.store.secret, a.n, joins)
	if err != nil {
		return err
	}
	a.workers = append(a.workers, p)
	a.alive[p] = true
	go p.wait(a.exits, a.l.o.Finished != nil)
	return nil
}
