//go:build linux

package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/e2e/rig"
)

func killWhileMeeting(t *trial) {
	p := newPlace(t)
	for restarts, code := range []int{5, 0} {
		r := p.Start(t, append([]string{"run", p.Config, "--max-restarts", fmt.Sprint(restarts)}, rig.Set(`backend.timeout="10s"`)...)...)
		w := p.Worker(t, 1)
		rig.Signal(t, w.PID, syscall.SIGSTOP) // before it can meet anybody
		p.PluginOf(t, "backend", 0)
		if len(rig.EventsOf[rig.StepEvent](t, p.RunDir(restarts+1))) > 0 {
			t.Fatal("the rank was stopped too late, there are steps")
		}
		at := time.Now()
		rig.Signal(t, w.PID, syscall.SIGKILL)
		res := r.Wait(t)
		t.ended(res, code).Prints(t, "SIGKILL")
		if restarts == 0 {
			t.soon("the others left", res.Since(r, at), 5*time.Second)
			res.Prints(t, "rank      : 1").OneFailureBlock(t)
			continue
		}
		res.Prints(t, "restart 1 of 1: rank 1 was ended by SIGKILL")
		if s := p.Summary(t, 2); s.Restarts != 1 || s.Status != "ok" {
			t.Errorf("summary %+v", s)
		}
		t.saw("after one restart")
	}
}

func killInStep(t *trial) {
	p := newPlace(t)
	a := p.Complete(t, 1, rig.Steps800()...)
	r := p.Start(t, append(rig.Steps800(), "--max-restarts", "1")...)
	p.WaitForSteps(t, r, 2, 20)
	at := time.Now()
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
	rig.Eventually(t, "the launcher to notice", func() bool { return strings.Contains(r.Stderr.String(), "restart 1 of 1: rank 1 was ended by SIGKILL") })
	t.soon("the launcher had stopped the rest", time.Since(at), 10*time.Second)
	t.ended(r.Wait(t), 0)
	t.soon("rank 0 noticed", p.logged(t, 2, 0, "closed the connection").Sub(at), time.Second)
	rig.SameParams(t, a, p.Summary(t, 2))
	t.saw("equal bits")
}

// logged is the time of the first line of a rank's log, in the n-th run, that holds a text.
func (p *place) logged(t *trial, n, rank int, text string) time.Time {
	t.Helper()
	log := rig.ReadFile(fmt.Sprintf("%s/logs/rank-%d.log", p.RunDir(n), rank))
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
	return append([]string{"run", "job.toml"}, rig.Set(append([]string{
		"dataset.options.shape=[1024]", `model.layers=[{type="linear", out_features=1024}, {type="relu"}, {type="linear", out_features=4}]`,
		"train.epochs=20", "train.eval_every=0", `checkpoint.every="8 steps"`, "optimizer.momentum=0.9", `backend.timeout="10s"`,
	}, more...)...)...)
}

func killInCollective(t *trial) {
	for _, medium := range []string{"true", "false"} {
		p := newPlace(t)
		args := wide("backend.options.shm=" + medium)
		a := p.Complete(t, 1, args...)
		r := p.Start(t, args...)
		p.WaitForSteps(t, r, 2, 20)
		peer := p.PluginOf(t, "backend", 0)
		rig.Signal(t, peer.PID, syscall.SIGSTOP) // the other rank is in a collective from now on
		p.waitsInCollective(t, 2, 1)
		rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
		rig.Signal(t, peer.PID, syscall.SIGCONT)
		t.ended(r.Wait(t), 5).Prints(t, "rank      : 1", "SIGKILL")
		t.ended(p.Trainctl(t, append(args, "--resume", "auto")...), 0)
		rig.SameParams(t, a, p.Summary(t, 3))
	}
	t.saw("equal bits after resuming, over shared memory and over sockets")
}

// waitsInCollective waits until a rank has been in one and the same collective
// for a while, by its flight record.
func (p *place) waitsInCollective(t rig.TB, n, rank int) {
	t.Helper()
	var last uint64
	var since time.Time
	rig.Eventually(t, "a collective that does not end", func() bool {
		report, err := flight.Read(p.RunDir(n) + "/flight")
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
	a := p.Complete(t, 1, wide()...)
	for n := 2; ; n++ {
		r := p.Start(t, wide()...)
		rank0 := p.Worker(t, 0)
		watch(t, p.Checkpoints(n), func(name string, _ bool) bool {
			writing := strings.HasPrefix(name, "step-") && strings.Contains(name, ".tmp-") && rig.NewestStep(p.Checkpoints(n)) > 0
			if writing {
				rig.Signal(t, rank0.PID, syscall.SIGKILL)
			}
			return writing
		})
		r.Wait(t).Expect(t, 5).Prints(t, "rank      : 0", "SIGKILL")
		before := rig.NewestStep(p.Checkpoints(n))
		if !hasUnfinished(p.Checkpoints(n)) {
			continue // the write was faster
		}
		t.saw("exit 5, an unfinished checkpoint beside that of step %d", before)
		t.ended(p.Trainctl(t, append(wide(), "--resume", "auto")...), 0)
		if from := p.ResumedFrom(t, n+1); from != before {
			t.Errorf("resumed from step %d, the newest whole checkpoint is of step %d", from, before)
		}
		rig.SameParams(t, a, p.Summary(t, n+1))
		p.removesUnfinished(t, n)
		return
	}
}

func hasUnfinished(dir string) bool { return len(rig.Glob(dir, "step-*.tmp-*")) > 0 }

// removesUnfinished asserts that the next writer of a directory clears it.
func (p *place) removesUnfinished(t *trial, n int) {
	p.StartWriter(t, n).Wait(t).Expect(t, 0)
	if left := rig.Glob(p.RunDir(n), "checkpoints/*.tmp-*"); len(left) > 0 {
		t.Errorf("unfinished checkpoints are left: %v", left)
	}
	t.saw("removed by the next writer")
}

func killBeforeLatest(t *trial) {
	p := newPlace(t)
	a := p.Complete(t, 1, wide()...)
	for n := 2; ; n++ {
		r := p.Start(t, wide()...)
		rank0 := p.Worker(t, 0)
		moves := 0
		watch(t, p.Checkpoints(n), func(name string, moved bool) bool {
			if !moved || !strings.HasPrefix(name, "step-") {
				return false
			}
			if moves++; moves == 3 {
				rig.Signal(t, rank0.PID, syscall.SIGKILL)
			}
			return moves == 3
		})
		r.Wait(t).Expect(t, 5).Prints(t, "rank      : 0")
		step := rig.NewestStep(p.Checkpoints(n))
		if latest := p.LatestCheckpoint(t, n); latest == fmt.Sprint("step-", step) || latest == "" {
			continue // it was faster
		} else {
			t.saw("exit 5, latest says %s beside step-%d", latest, step)
		}
		t.ended(p.Trainctl(t, append(wide(), "--resume", "auto")...), 0)
		if from := p.ResumedFrom(t, n+1); from != step {
			t.Errorf("resumed from step %d, the newest checkpoint is of step %d", from, step)
		}
		rig.SameParams(t, a, p.Summary(t, n+1))
		t.saw("resumed from step %d", step)
		return
	}
}

func killLauncher(t *trial) {
	p := newPlace(t)
	port := rig.FreePort(t)
	endpoint := fmt.Sprint("127.0.0.1:", port)
	first := p.Node(0, endpoint, append(rig.Endless(), "--nproc-per-node", "1")...).Start(t)
	other := p.Node(1, endpoint, append(rig.Endless(), "--nproc-per-node", "1")...).Start(t)
	p.WaitForSteps(t, first, 1, 3)
	mine := p.Descendants(first.Cmd.Process.Pid)
	if len(mine) < 4 {
		t.Fatalf("node 0 has %d processes below its launcher", len(mine))
	}
	at := time.Now()
	rig.Signal(t, first.Cmd.Process.Pid, syscall.SIGKILL)
	first.Wait(t)
	rig.Eventually(t, "the end of the launcher's processes", func() bool { return !rig.AnyAlive(mine) })
	t.soon("its processes were gone", time.Since(at), 2*time.Second)
	l, err := net.Listen("tcp", endpoint)
	if err != nil {
		t.Errorf("the port is not free: %v", err)
	} else {
		rig.Must(t, l.Close())
	}
	res := other.Wait(t)
	t.soon("the other node ended", res.Since(other, at), 15*time.Second)
	t.ended(res, 5)
}

func killBackend(t *trial) {
	p := newPlace(t)
	r := p.Start(t, wide("train.epochs=1000000", `checkpoint.every="never"`)...)
	p.WaitForSteps(t, r, 1, 3)
	peer := p.PluginOf(t, "backend", 0)
	victim := p.PluginOf(t, "backend", 1)
	rig.Signal(t, peer.PID, syscall.SIGSTOP)
	p.waitsInCollective(t, 1, 1)
	at := time.Now()
	rig.Signal(t, victim.PID, syscall.SIGKILL)
	rig.Signal(t, peer.PID, syscall.SIGCONT)
	res := r.Wait(t)
	t.ended(res, 5).OneFailureBlock(t).Prints(t, "rank      : 1", `backend plugin "tcp"`, "the process ended: signal: killed").
		Matches(t, `all_reduce #\d+.*not ended`)
	t.soon("the run ended", res.Since(r, at), 5*time.Second)
	t.saw("the block names rank 1, its backend plugin and the all_reduce")

	p.AddFaultyPlugin(t) // tcp prints nothing
	t.ended(p.Train(t, p.FaultArgs("backend", "last words")...), 5).
		BlockPrints(t, "rank      : 1", `backend plugin "./faulty"`, "the process ended: signal: killed", "these are my last words")
	t.saw("and what the plugin printed last")
}

func killDataset(t *trial) {
	p := newPlace(t)
	a := p.Complete(t, 1, rig.Steps800()...)
	r := p.Start(t, rig.Steps800()...)
	p.WaitForSteps(t, r, 2, 100)
	at := time.Now()
	rig.Signal(t, p.PluginOf(t, "dataset", 1).PID, syscall.SIGKILL)
	res := r.Wait(t)
	t.ended(res, 5).OneFailureBlock(t).Prints(t, "rank      : 1", `dataset plugin "synthetic"`, "the process ended: signal: killed")
	t.soon("the run ended", res.Since(r, at), 5*time.Second)
	t.ended(p.Trainctl(t, append(rig.Steps800(), "--resume", "auto")...), 0)
	b := p.Summary(t, 3)
	rig.SameParams(t, a, b)
	if a.Steps != b.Steps || len(rig.EventsOf[rig.StepEvent](t, p.RunDir(3))) != a.Steps-p.ResumedFrom(t, 3) {
		t.Errorf("%d steps after resuming at %d of %d", len(rig.EventsOf[rig.StepEvent](t, p.RunDir(3))), p.ResumedFrom(t, 3), a.Steps)
	}
	t.saw("resuming gives every step once and equal bits")
}

func killLeader(t *trial) {
	p := newPlace(t)
	endpoint := fmt.Sprint("127.0.0.1:", rig.FreePort(t))
	node := func(p *place, rank int, nodes string) *rig.Proc {
		r := p.Node(min(rank, 1), endpoint, append(rig.Endless(`backend.init_timeout="40s"`), "--nproc-per-node", "1")...)
		r.Cmd.Args = append(r.Cmd.Args, "--nnodes", nodes, "--node-rank", fmt.Sprint(rank))
		return r.Start(t)
	}
	leader, other := node(p, 0, "3"), node(p, 1, "3") // the third never comes
	rig.Eventually(t, "the leader to wait for the third", func() bool { return strings.Contains(leader.Stderr.String(), "waiting for the other nodes' launchers") })
	at := time.Now()
	rig.Signal(t, leader.Cmd.Process.Pid, syscall.SIGKILL)
	leader.Wait(t)
	res := other.Wait(t)
	t.ended(res, 4)
	t.soon("while nodes met the other one ended", res.Since(other, at), 15*time.Second)

	p = newPlace(t)
	leader, other = node(p, 0, "2"), node(p, 1, "2")
	p.WaitForSteps(t, leader, 1, 3)
	at = time.Now()
	rig.Signal(t, leader.Cmd.Process.Pid, syscall.SIGKILL)
	leader.Wait(t)
	res = other.Wait(t)
	t.ended(res, 5).Prints(t, "FAILED")
	t.soon("in training the other one ended", res.Since(other, at), 15*time.Second)
}

func terminate(t *trial) {
	p := newPlace(t)
	a := p.Complete(t, 1, rig.Steps800()...)
	r := p.Start(t, rig.Steps800()...)
	p.WaitForSteps(t, r, 2, 50)
	at := time.Now()
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	res := r.Wait(t)
	t.ended(res, 75).Prints(t, "continue with --resume auto")
	t.soon("it had saved and ended", res.Since(r, at), 6*time.Second)
	t.ended(p.Trainctl(t, append(rig.Steps800(), "--resume", "auto")...), 0)
	rig.SameParams(t, a, p.Summary(t, 3))
	t.saw("equal bits")
	r = p.Start(t, append([]string{"run", p.Config}, rig.Endless()...)...)
	p.WaitForSteps(t, r, 4, 3)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGTERM)
	t.ended(r.Wait(t), 143).Prints(t, `nothing was saved because checkpoint.every = "never"`)
}

func interruptTwice(t *trial) {
	p := newPlace(t)
	r := p.StartEndless(t, `launch.grace="50s"`)
	rig.Signal(t, p.Worker(t, 0).PID, syscall.SIGSTOP) // it will not answer the first one
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGINT)
	rig.Eventually(t, "the launcher to pass the signal on", func() bool { return strings.Contains(r.Stderr.String(), "press Ctrl-C again to kill them") })
	at := time.Now()
	res := r.InterruptUntilExit(t)
	t.ended(res, 130)
	t.soon("all was killed", res.Since(r, at), 3*time.Second)
}
