package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
)

// departed is a rank of an elastic job that is no longer connected to the store.
type departed struct {
	rank  int
	since time.Time // when it had connected
	why   error
}

// gone notes that a rank is no longer connected, because it has died or was silent.
func (s *groupStore) gone(rank int, since time.Time, why error) {
	select {
	case s.left <- departed{rank, since, why}:
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
			if rank.Silent(d.why) {
				a.l.sink.printf("rank %d is killed: it was silent for launch.lost_after = %v", d.rank, a.l.o.LostAfter)
			}
			w.body.kill()
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
	others := fmt.Sprintf("%d ranks go on", len(a.alive))
	switch len(a.alive) {
	case 0:
		others = "the ranks of other nodes go on"
	case 1:
		others = "1 rank goes on"
	}
	a.l.sink.printf("%v; %s%s", e.cause(a.l.host, a.l.oom).brief(), others, next)
	a.workers = slices.DeleteFunc(a.workers, func(w *worker) bool { return w == e.w })
	a.finishing.Go(e.w.finish) // which closes its pipes
	if !again {
		return
	}
	w := e.w.world
	w.MasterAddr, w.MasterPort = a.store.host, a.store.port
	if err := a.startRank(w, true); err != nil {
		a.l.sink.printf("%v", err)
		if len(a.alive) == 0 {
			a.failed(e)
		}
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
	p, err := a.startWorker(w, joins)
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

// mayLeave reports whether the job continues without this node when it is asked to end.
func (l *launcher) mayLeave() bool { return l.o.Least > 0 && !l.hosts() }

// hosts reports whether this node has the ranks' store.
func (l *launcher) hosts() bool {
	if l.nodes != nil && l.nodes.etcd != nil {
		return l.nodes.hosts
	}
	return l.o.NodeRank == 0
}

// mayFail reports whether the job continues without this node when its ranks fail.
func (l *launcher) mayFail() bool { return l.mayLeave() || l.o.Etcd != nil }

// joinNodes is meetNodes for a range of nodes: nobody waits for the others, which may come at any
// time.
func joinNodes(ctx context.Context, o Options, host string, s *sink) (*nodes, layout, error) {
	n := &nodes{o: o}
	open := n.openFirst
	if o.Etcd != nil {
		open = n.openEtcd
	}
	begins, err := open(ctx, host, s)
	var l layout
	if err == nil {
		l, err = n.compare(ctx, host, begins)
	}
	if err != nil {
		n.close()
		return nil, layout{}, err
	}
	return n, l, nil
}

// openFirst meets the others at node 0, which begins the job.
func (n *nodes) openFirst(ctx context.Context, host string, s *sink) (begins bool, err error) {
	o := n.o
	if o.NodeRank == 0 {
		n.server, err = rank.ListenStore(bindAddr(o.Endpoint), rank.StoreOptions{RunID: o.RunID, Secret: o.Secret, WorldSize: o.Nodes, Log: s.printf, Elastic: true, LostAfter: o.LostAfter})
		if err != nil {
			return false, err
		}
	}
	if err := n.dial(ctx, host, s); err != nil {
		return false, fmt.Errorf("node %d did not find node 0 at %s: %w", o.NodeRank, o.Endpoint, err)
	}
	return o.NodeRank == 0, nil
}

// compare compares this node with the one that began the job, which describes itself to the others.
func (n *nodes) compare(ctx context.Context, host string, begins bool) (l layout, err error) {
	o := &n.o
	var first []byte
	if !begins {
		if first, err = n.begun(ctx); err != nil {
			return l, err
		}
		begins = first == nil
	}
	if begins && o.Begin != nil && o.Etcd != nil {
		if o.Brief, o.LogDir, err = o.Begin(); err != nil {
			return l, err
		}
	}
	mine := n.info(host)
	if begins {
		first = mine
		if err := n.meeting.Set(ctx, firstNode, mine); err != nil {
			return l, err
		}
	}
	infos := make([]nodeInfo, 2)
	if err := errors.Join(json.Unmarshal(first, &infos[0]), json.Unmarshal(mine, &infos[1])); err != nil {
		return layout{}, fmt.Errorf("node 0 sent an invalid description of itself: %w", err)
	}
	if err := sameSettings(infos); err != nil {
		err.(*SettingsError).Node = o.NodeRank
		return layout{}, err
	}
	if a, b := infos[0].Nproc, o.Nproc; a != b {
		return layout{}, &SettingsError{Node: o.NodeRank, First: fmt.Sprint("launch.nproc_per_node = ", a), Other: fmt.Sprint("launch.nproc_per_node = ", b)}
	}
	places := make([]nodeInfo, o.Nodes)
	for i := range places {
		places[i] = nodeInfo{Nproc: o.Nproc}
	}
	l = newLayout(places)
	l.brief, l.begins = infos[0].Brief, begins
	return l, nil
}

// firstNode is the key at which node 0 describes itself.
const firstNode = "node 0"

// rejoin looks for node 0 again, after the connection to it was lost: the network was cut, or this
// node was stopped. The ranks that it starts then join the others.
func (l *launcher) rejoin(ctx context.Context) (os.Signal, error) {
	lost := "node 0"
	if l.o.Etcd != nil {
		lost = "its place in the job"
	}
	l.sink.printf("lost %s; this node looks for it for %v, to join the others again", lost, l.o.WaitForNodes)
	l.nodes.leaves = true
	l.nodes.close()
	l.nodes = nil
	l.again = true
	return l.interruptible(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, l.o.WaitForNodes)
		defer cancel()
		var now layout
		var err error
		if l.nodes, now, err = joinNodes(ctx, l.o, l.host, l.sink); err != nil {
			return err
		}
		l.o.NodeRank = l.nodes.o.NodeRank
		return l.follow(now.brief)
	})
}

// follow makes this node's run that of the node that began the job. It is another one than before if
// that node has begun the job again.
func (l *launcher) follow(brief []byte) (err error) {
	if l.o.Briefed == nil || bytes.Equal(brief, l.layout.brief) {
		return nil
	}
	l.layout.brief = brief
	l.o.LogDir, err = l.o.Briefed(brief, l.o.NodeRank)
	return err
}

// lostForGood is the result of a node that did not find the others again.
func (l *launcher) lostForGood(res Result, sig os.Signal, err error) (Result, error) {
	if l.o.Etcd == nil && errors.As(err, new(*rank.TimeoutError)) {
		err = fmt.Errorf("%w; node 0 hosts the job's store, without which the job cannot continue; fix: start it again, where --resume auto continues from the newest checkpoint, or use launch.rdzv_backend = \"etcd\", with which every node may die", err)
	}
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
	a.l.nodes.leaves = true
	a.killAll()
}
