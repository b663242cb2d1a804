//go:build linux

package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/plugin/flight"
)

// killFaults are processes that are killed, and signals to the launcher.
var killFaults = []fault{
	{number: 1, name: "kill -9 of a rank while ranks meet", run: killWhileMeeting,
		promise: "the others leave, the group restarts, one restart less is left"},
	{number: 2, name: "kill -9 of a rank in a step", run: killInStep,
		promise: "the other rank notices within 1 s; the restarted run ends with the bits of an undisturbed one"},
	{number: 3, name: "kill -9 of a rank in a collective", run: killInCollective,
		promise: "no rank applies a partial sum: resuming gives the bits of an undisturbed run"},
	{number: 4, name: "kill -9 of rank 0 writing a checkpoint", run: killWhileWriting,
		promise: "the one before is used, the unfinished one is removed"},
	{number: 5, name: "kill -9 between a checkpoint's rename and latest", run: killBeforeLatest,
		promise: "the newest whole checkpoint is found without latest"},
	{number: 6, name: "kill -9 of a launcher", run: killLauncher,
		promise: "ranks and plugins are gone within 2 s, the port is free"},
	{number: 7, name: "kill -9 of a backend plugin in a collective", run: killBackend,
		promise: "exit 5; the block names the plugin, its rank, its last operation and what it printed last"},
	{number: 8, name: "kill -9 of a dataset plugin", run: killDataset,
		promise: "exit 5, named; after resuming no sample is lost or read twice"},
	{number: 9, name: "kill -9 of the rendezvous' leader", run: killLeader,
		promise: "the others end with 4 while nodes meet, with 5 later, in bounded time"},
	{number: 10, name: "SIGTERM to the launcher", run: terminate,
		promise: "saves and ends with 75 within the grace, or 143 if nothing may be saved; resuming is exact"},
	{number: 11, name: "a second SIGINT", run: interruptTwice,
		promise: "everything is killed at once, exit 130, no orphan"},
}

func killWhileMeeting(t *trial) {
	p := newPlace(t)
	for restarts, code := range []int{5, 0} {
		r := p.start(t, append([]string{"run", p.config, "--max-restarts", fmt.Sprint(restarts)}, set(`backend.timeout="10s"`)...)...)
		w := p.worker(t, 1)
		kill(t, w.pid, syscall.SIGSTOP) // before it can meet anybody
		p.pluginOf(t, "backend", 0)
		if len(eventsOf[stepEvent](t, p, restarts+1)) > 0 {
			t.Fatal("the rank was stopped too late, there are steps")
		}
		at := time.Now()
		kill(t, w.pid, syscall.SIGKILL)
		res := r.wait(t)
		t.ended(res, code).says(t, "SIGKILL")
		if restarts == 0 {
			t.soon("the others left", res.since(r, at), 5*time.Second)
			res.says(t, "rank      : 1").oneBlock(t)
			continue
		}
		res.says(t, "restart 1 of 1: rank 1 was ended by SIGKILL")
		if s := p.summary(t, 2); s.Restarts != 1 || s.Status != "ok" {
			t.Errorf("summary %+v", s)
		}
		t.saw("after one restart")
	}
}

func killInStep(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, lengthy()...)
	r := p.start(t, append(lengthy(), "--max-restarts", "1")...)
	p.trained(t, r, 2, 20)
	at := time.Now()
	kill(t, p.worker(t, 1).pid, syscall.SIGKILL)
	eventually(t, "the launcher to notice", func() bool { return strings.Contains(r.stderr.String(), "restart 1 of 1: rank 1 was ended by SIGKILL") })
	t.soon("the launcher had stopped the rest", time.Since(at), 10*time.Second)
	t.ended(r.wait(t), 0)
	t.soon("rank 0 noticed", p.logged(t, 2, 0, "closed the connection").Sub(at), time.Second)
	sameParams(t, a, p.summary(t, 2))
	t.saw("equal bits")
}

// logged is the time of the first line of a rank's log, in the n-th run, that holds a text.
func (p *place) logged(t *trial, n, rank int, text string) time.Time {
	t.Helper()
	log := read(fmt.Sprintf("%s/logs/rank-%d.log", p.runDir(n), rank))
	for line := range strings.Lines(log) {
		stamp, _, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && strings.Contains(line, text) {
			return at
		}
	}
	t.Fatalf("the log of rank %d does not say %q:\n%s", rank, text, log)
	return time.Time{}
}

// wide is a model whose collectives take a while.
func wide(more ...string) []string {
	return append([]string{"run", "job.toml"}, set(append([]string{
		"dataset.options.shape=[1024]", `model.layers=[{type="linear", out_features=1024}, {type="relu"}, {type="linear", out_features=4}]`,
		"train.epochs=20", "train.eval_every=0", `checkpoint.every="8 steps"`, "optimizer.momentum=0.9", `backend.timeout="10s"`,
	}, more...)...)...)
}

func killInCollective(t *trial) {
	for _, medium := range []string{"true", "false"} {
		p := newPlace(t)
		args := wide("backend.options.shm=" + medium)
		a := p.whole(t, 1, args...)
		r := p.start(t, args...)
		p.trained(t, r, 2, 20)
		peer := p.pluginOf(t, "backend", 0)
		kill(t, peer.pid, syscall.SIGSTOP) // the other rank is in a collective from now on
		p.waitsInCollective(t, 2, 1)
		kill(t, p.worker(t, 1).pid, syscall.SIGKILL)
		kill(t, peer.pid, syscall.SIGCONT)
		t.ended(r.wait(t), 5).says(t, "rank      : 1", "SIGKILL")
		t.ended(p.trainctl(t, append(args, "--resume", "auto")...), 0)
		sameParams(t, a, p.summary(t, 3))
	}
	t.saw("equal bits after resuming, over shared memory and over sockets")
}

// waitsInCollective waits until a rank has been in one and the same collective
// for a while, by its flight record.
func (p *place) waitsInCollective(t tester, n, rank int) {
	t.Helper()
	var last uint64
	var since time.Time
	eventually(t, "a collective that does not end", func() bool {
		report, err := flight.Read(p.runDir(n) + "/flight")
		if err != nil || len(report.Ranks) <= rank {
			return false
		}
		k := report.Ranks[rank]
		if len(k.Operations) == 0 || k.Total != last {
			last, since = k.Total, time.Now()
			return false
		}
		state := k.Operations[len(k.Operations)-1].State
		return (state == flight.Begun || state == flight.Queued) && time.Since(since) > 300*time.Millisecond
	})
}

func killWhileWriting(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, wide()...)
	for n := 2; ; n++ {
		r := p.start(t, wide()...)
		rank0 := p.worker(t, 0)
		watch(t, p.checkpoints(n), func(name string, _ bool) bool {
			writing := strings.HasPrefix(name, "step-") && strings.Contains(name, ".tmp-") && newest(p.checkpoints(n)) > 0
			if writing {
				kill(t, rank0.pid, syscall.SIGKILL)
			}
			return writing
		})
		r.wait(t).expect(t, 5).says(t, "rank      : 0", "SIGKILL")
		before := newest(p.checkpoints(n))
		if !hasUnfinished(p.checkpoints(n)) {
			continue // the write was faster
		}
		t.saw("exit 5, an unfinished checkpoint beside that of step %d", before)
		t.ended(p.trainctl(t, append(wide(), "--resume", "auto")...), 0)
		if from := p.resumed(t, n+1); from != before {
			t.Errorf("resumed from step %d, the newest whole checkpoint is of step %d", from, before)
		}
		sameParams(t, a, p.summary(t, n+1))
		p.removesUnfinished(t, n)
		return
	}
}

func hasUnfinished(dir string) bool { return len(matching(dir, "step-*.tmp-*")) > 0 }

// removesUnfinished asserts that the next writer of a directory clears it.
func (p *place) removesUnfinished(t *trial, n int) {
	p.asWriter(t, n).wait(t).expect(t, 0)
	if left := matching(p.runDir(n), "checkpoints/*.tmp-*"); len(left) > 0 {
		t.Errorf("unfinished checkpoints are left: %v", left)
	}
	t.saw("removed by the next writer")
}

func killBeforeLatest(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, wide()...)
	for n := 2; ; n++ {
		r := p.start(t, wide()...)
		rank0 := p.worker(t, 0)
		moves := 0
		watch(t, p.checkpoints(n), func(name string, moved bool) bool {
			if !moved || !strings.HasPrefix(name, "step-") {
				return false
			}
			if moves++; moves == 3 {
				kill(t, rank0.pid, syscall.SIGKILL)
			}
			return moves == 3
		})
		r.wait(t).expect(t, 5).says(t, "rank      : 0")
		step := newest(p.checkpoints(n))
		if latest := p.latest(t, n); latest == fmt.Sprint("step-", step) || latest == "" {
			continue // it was faster
		} else {
			t.saw("exit 5, latest says %s beside step-%d", latest, step)
		}
		t.ended(p.trainctl(t, append(wide(), "--resume", "auto")...), 0)
		if from := p.resumed(t, n+1); from != step {
			t.Errorf("resumed from step %d, the newest checkpoint is of step %d", from, step)
		}
		sameParams(t, a, p.summary(t, n+1))
		t.saw("resumed from step %d", step)
		return
	}
}

func killLauncher(t *trial) {
	p := newPlace(t)
	port := freePort(t)
	endpoint := fmt.Sprint("127.0.0.1:", port)
	first := p.node(0, endpoint, append(endless(), "--nproc-per-node", "1")...).start(t)
	other := p.node(1, endpoint, append(endless(), "--nproc-per-node", "1")...).start(t)
	p.trained(t, first, 1, 3)
	mine := p.below(first.cmd.Process.Pid)
	if len(mine) < 4 {
		t.Fatalf("node 0 has %d processes below its launcher", len(mine))
	}
	at := time.Now()
	kill(t, first.cmd.Process.Pid, syscall.SIGKILL)
	first.wait(t)
	eventually(t, "the end of the launcher's processes", func() bool { return !anyAlive(mine) })
	t.soon("its processes were gone", time.Since(at), 2*time.Second)
	l, err := net.Listen("tcp", endpoint)
	if err != nil {
		t.Errorf("the port is not free: %v", err)
	} else {
		must(t, l.Close())
	}
	res := other.wait(t)
	t.soon("the other node ended", res.since(other, at), 15*time.Second)
	t.ended(res, 5)
}

func killBackend(t *trial) {
	p := newPlace(t)
	r := p.start(t, wide("train.epochs=1000000", `checkpoint.every="never"`)...)
	p.trained(t, r, 1, 3)
	peer := p.pluginOf(t, "backend", 0)
	victim := p.pluginOf(t, "backend", 1)
	kill(t, peer.pid, syscall.SIGSTOP)
	p.waitsInCollective(t, 1, 1)
	at := time.Now()
	kill(t, victim.pid, syscall.SIGKILL)
	kill(t, peer.pid, syscall.SIGCONT)
	res := r.wait(t)
	t.ended(res, 5).oneBlock(t).says(t, "rank      : 1", `backend plugin "tcp"`, "the process ended: signal: killed").
		matches(t, `all_reduce #\d+.*not ended`)
	t.soon("the run ended", res.since(r, at), 5*time.Second)
	t.saw("the block names rank 1, its backend plugin and the all_reduce")

	p.faulty(t) // tcp prints nothing
	t.ended(p.train(t, p.withFault("backend", "last words")...), 5).
		blockSays(t, "rank      : 1", `backend plugin "./faulty"`, "the process ended: signal: killed", "these are my last words")
	t.saw("and what the plugin printed last")
}

func killDataset(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, lengthy()...)
	r := p.start(t, lengthy()...)
	p.trained(t, r, 2, 100)
	at := time.Now()
	kill(t, p.pluginOf(t, "dataset", 1).pid, syscall.SIGKILL)
	res := r.wait(t)
	t.ended(res, 5).oneBlock(t).says(t, "rank      : 1", `dataset plugin "synthetic"`, "the process ended: signal: killed")
	t.soon("the run ended", res.since(r, at), 5*time.Second)
	t.ended(p.trainctl(t, append(lengthy(), "--resume", "auto")...), 0)
	b := p.summary(t, 3)
	sameParams(t, a, b)
	if a.Steps != b.Steps || len(eventsOf[stepEvent](t, p, 3)) != a.Steps-p.resumed(t, 3) {
		t.Errorf("%d steps after resuming at %d of %d", len(eventsOf[stepEvent](t, p, 3)), p.resumed(t, 3), a.Steps)
	}
	t.saw("resuming gives every step once and equal bits")
}

func killLeader(t *trial) {
	p := newPlace(t)
	endpoint := fmt.Sprint("127.0.0.1:", freePort(t))
	node := func(p *place, rank int, nodes string) *proc {
		r := p.node(min(rank, 1), endpoint, append(endless(`backend.init_timeout="40s"`), "--nproc-per-node", "1")...)
		r.cmd.Args = append(r.cmd.Args, "--nnodes", nodes, "--node-rank", fmt.Sprint(rank))
		return r.start(t)
	}
	leader, other := node(p, 0, "3"), node(p, 1, "3") // the third never comes
	eventually(t, "the leader to wait for the third", func() bool { return strings.Contains(leader.stderr.String(), "waiting for the other nodes' launchers") })
	at := time.Now()
	kill(t, leader.cmd.Process.Pid, syscall.SIGKILL)
	leader.wait(t)
	res := other.wait(t)
	t.ended(res, 4)
	t.soon("while nodes met the other one ended", res.since(other, at), 15*time.Second)

	p = newPlace(t)
	leader, other = node(p, 0, "2"), node(p, 1, "2")
	p.trained(t, leader, 1, 3)
	at = time.Now()
	kill(t, leader.cmd.Process.Pid, syscall.SIGKILL)
	leader.wait(t)
	res = other.wait(t)
	t.ended(res, 5).says(t, "FAILED")
	t.soon("in training the other one ended", res.since(other, at), 15*time.Second)
}

func terminate(t *trial) {
	p := newPlace(t)
	a := p.whole(t, 1, lengthy()...)
	r := p.start(t, lengthy()...)
	p.trained(t, r, 2, 50)
	at := time.Now()
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	res := r.wait(t)
	t.ended(res, 75).says(t, "continue with --resume auto")
	t.soon("it had saved and ended", res.since(r, at), 6*time.Second)
	t.ended(p.trainctl(t, append(lengthy(), "--resume", "auto")...), 0)
	sameParams(t, a, p.summary(t, 3))
	t.saw("equal bits")
	r = p.start(t, append([]string{"run", p.config}, endless()...)...)
	p.trained(t, r, 4, 3)
	kill(t, r.cmd.Process.Pid, syscall.SIGTERM)
	t.ended(r.wait(t), 143).says(t, `nothing was saved because checkpoint.every = "never"`)
}

func interruptTwice(t *trial) {
	p := newPlace(t)
	r := p.underWay(t, `launch.grace="50s"`)
	kill(t, p.worker(t, 0).pid, syscall.SIGSTOP) // it will not answer the first one
	kill(t, r.cmd.Process.Pid, syscall.SIGINT)
	eventually(t, "the launcher to pass the signal on", func() bool { return strings.Contains(r.stderr.String(), "press Ctrl-C again to kill them") })
	at := time.Now()
	res := r.interruptAgain(t)
	t.ended(res, 130)
	t.soon("all was killed", res.since(r, at), 3*time.Second)
}
