package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
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

// expelled kills a rank that the others continue without: it may only have been silent.
func (a *attempt) expelled(d departed) {
	a.l.o.Lost(d.rank, a.n)
	for w := range a.alive {
		if w.world.Rank == d.rank && a.stopReason == nil && w.started.Before(d.since) {
			w.killGroup()
		}
	}
}

// leaves reports whether the other ranks continue without one that has ended. Before the first step
// they cannot, unless the rank joined later.
func (a *attempt) leaves(e exit) bool {
	step, _ := e.w.place()
	if !a.l.o.Elastic || !e.bad() || e.code == ExitPreempted || !restartHelps(e.code) {
		return false
	}
	if a.l.mayLeave() {
		return len(a.alive) > 0 || a.mayRestart(e)
	}
	return (step >= 0 || e.w.joins) && (len(a.alive) > 0 || a.l.o.Least > 0 && a.mayRestart(e))
}

// left continues without a rank, and starts another in its place while restarts are left.
func (a *attempt) left(e exit) {
	ownChildren.reapOrphans(a.before) // plugins of ranks that were lost before this one
	again, next := a.mayRestart(e), ""
	if again {
		if !a.disconnected(e) {
			a.l.rejoined++
		}
		next = "; another one is started in its place"
	}
	others := fmt.Sprintf("%d ranks", len(a.alive))
	if len(a.alive) == 0 {
		others = "the ranks of other nodes"
	}
	a.l.sink.printf("%v; %s go on%s", e.cause(a.l.host, a.l.oom).brief(), others, next)
	if !again {
		return
	}
	if err := a.startRank(e.w.world, true); err != nil {
		a.l.sink.printf("%v", err)
	}
}

// mayRestart reports whether another rank may be started in the place of one that has ended.
func (a *attempt) mayRestart(e exit) bool {
	return a.disconnected(e) || a.l.rejoined+a.n < a.l.o.MaxRestarts
}

// disconnected reports whether a rank has ended because the others went on without it: it was
// silent, or the network to them was cut. That uses up no restart.
func (a *attempt) disconnected(e exit) bool { return a.l.mayLeave() && e.code == ExitPeer }

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

// startWindow is how long nodes may still start together with the others when enough have come.
const startWindow = 3 * time.Second

// mayLeave reports whether the job continues without this node.
func (l *launcher) mayLeave() bool { return l.o.Least > 0 && l.o.NodeRank > 0 }

// joinNodes is meetNodes for a range of nodes: node 0 does not wait for the others, which may come
// at any time.
func joinNodes(ctx context.Context, o Options, host string, s *sink) (*nodes, layout, error) {
	n := &nodes{o: o}
	fail := func(err error) (*nodes, layout, error) {
		n.close()
		return nil, layout{}, err
	}
	if o.NodeRank == 0 {
		var err error
		n.server, err = rank.ListenStore(bindAddr(o.Endpoint), rank.StoreOptions{RunID: o.RunID, Secret: o.Secret, WorldSize: o.Nodes, Log: s.printf, Elastic: true, LostAfter: o.LostAfter})
		if err != nil {
			return fail(err)
		}
	}
	if err := n.dial(ctx, host, s); err != nil {
		return fail(fmt.Errorf("node %d did not find node 0 at %s: %w", o.NodeRank, o.Endpoint, err))
	}
	mine := n.info(host)
	text := mine
	if o.NodeRank == 0 {
		if err := n.client.Set(ctx, firstNode, mine); err != nil {
			return fail(err)
		}
	} else if first, err := n.client.Get(ctx, firstNode); err != nil {
		return fail(err)
	} else {
		text = first
	}
	infos := make([]nodeInfo, 2)
	if err := errors.Join(json.Unmarshal(text, &infos[0]), json.Unmarshal(mine, &infos[1])); err != nil {
		return fail(fmt.Errorf("node 0 sent an invalid description of itself: %w", err))
	}
	if err := sameSettings(infos); err != nil {
		err.(*SettingsError).Node = o.NodeRank
		return fail(err)
	}
	if a, b := infos[0].Nproc, o.Nproc; a != b {
		return fail(&SettingsError{Node: o.NodeRank, First: fmt.Sprint("launch.nproc_per_node = ", a), Other: fmt.Sprint("launch.nproc_per_node = ", b)})
	}
	places := make([]nodeInfo, o.Nodes)
	for i := range places {
		places[i] = nodeInfo{Nproc: o.Nproc}
	}
	l := newLayout(places)
	l.brief = infos[0].Brief
	return n, l, nil
}

// firstNode is the key at which node 0 describes itself.
const firstNode = "node 0"

// rejoin looks for node 0 again, after the connection to it was lost: the network was cut, or this
// node was stopped. The ranks that it starts then join the others.
func (l *launcher) rejoin(ctx context.Context) (os.Signal, error) {
	l.sink.printf("lost node 0; this node looks for it for %v, to join the others again", l.o.WaitForNodes)
	l.nodes.close()
	l.nodes = nil
	l.again = true
	return l.interruptible(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, l.o.WaitForNodes)
		defer cancel()
		var err error
		l.nodes, _, err = joinNodes(ctx, l.o, l.host, l.sink)
		return err
	})
}

// lostForGood is the result of a node that did not find the others again.
func (l *launcher) lostForGood(res Result, sig os.Signal, err error) (Result, error) {
	if sig != nil {
		res.ExitCode, res.Signal, res.Failures = signalExit(sig), sig, nil
		return res, nil
	}
	res.ExitCode = meetingCode(err)
	return res, err
}

// leaveJob ends this node's ranks; those of the other nodes go on.
func (a *attempt) leaveJob(s os.Signal) {
	sig, _ := s.(syscall.Signal)
	a.l.sink.printf("%v: this node leaves the job, and the other nodes go on", s)
	a.stopReason = &stopReason{Node: a.l.o.NodeRank, Signal: int(sig)}
	a.killAll()
}
