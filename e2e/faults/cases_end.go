//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

func leaveEarly(t *trial) {
	p := newPlace(t)
	r := p.StartEndless(t)
	at := time.Now()
	leave(t, p.Worker(t, 1).PID, 0)
	res := r.Wait(t)
	t.ended(res, 5).Prints(t, "rank      : 1").OneFailureBlock(t)
	t.soon("rank 1 was named", res.Since(r, at), 5*time.Second)

	r = p.Start(t, append([]string{"run", p.Config}, rig.Endless("launch.nproc_per_node=1")...)...)
	p.WaitForSteps(t, r, 2, 3)
	leave(t, p.Worker(t, 0).PID, 0) // no process is left to complain
	t.ended(r.Wait(t), 5).Prints(t, "rank      : 0").OneFailureBlock(t)
	t.saw("also when it is the only rank")
}

// busy trains on two cores in assembly kernels most of the time.
func busy(more ...string) []string {
	return append([]string{"run", "job.toml"}, rig.Endless(append([]string{
		"dataset.options.shape=[1024]", `model.layers=[{type="linear", out_features=1024}, {type="relu"}, {type="linear", out_features=4}]`, "train.per_rank_batch=32",
	}, more...)...)...)
}

// crashRank makes an assembly kernel of rank 1 access an address, and asserts that the
// failure block says why and in which kernel.
func crashRank(t *trial, address uint64, why string) (p *place, kernel string) {
	p = newPlace(t)
	r := p.Start(t, busy()...)
	p.WaitForSteps(t, r, 1, 3)
	at := time.Now()
	kernel = crashKernel(t, p.Worker(t, 1).PID, address)
	res := r.Wait(t)
	t.ended(res, 5).BlockPrints(t, "rank      : 1", why, kernel)
	t.soon("the run ended", res.Since(r, at), 5*time.Second)
	return p, kernel
}

func panicInRank(t *trial) {
	p, kernel := crashRank(t, 8, "nil pointer dereference")
	if log := rig.ReadFile(filepath.Join(p.RunDir(1), "logs", "rank-1.log")); !strings.Contains(log, kernel) || !strings.Contains(log, "goroutine ") {
		t.Errorf("the rank's log has no stack with %s:\n%s", kernel, log)
	}
	t.saw("panic in %s, its stack in the log", kernel)
}

func panicInPlugin(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	r := p.Train(t, p.FaultArgs("dataset", "panic")...)
	t.ended(r, 5).BlockPrints(t, `dataset plugin "./faulty" (faulty 6.6.6)`, "panic: this plugin panics on purpose").OneFailureBlock(t)
	if log := rig.ReadFile(filepath.Join(p.RunDir(1), "logs", "rank-1.log")); !strings.Contains(log, "main.(*dataset).Fill") {
		t.Errorf("the rank's log has no stack of the plugin:\n%s", log)
	}
	t.saw("the message in the block, the stack in the log of rank 1")
}

func crashInKernel(t *trial) {
	_, kernel := crashRank(t, 0x7ead00000000, "SIGSEGV")
	t.saw("the block says SIGSEGV in %s", kernel)
}

func useUpRestarts(t *trial) {
	p := newPlace(t)
	r := p.Start(t, append(rig.Steps800("train.epochs=1000000"), "--max-restarts", "2")...)
	for n := range 3 {
		w := p.Find(t, fmt.Sprint("rank 1 of attempt ", n), func(q rig.Process) bool {
			return q.IsWorker() && q.Rank() == 1 && q.HasEnv(fmt.Sprint("TORCHELASTIC_RESTART_COUNT=", n))
		})
		rig.Signal(t, w.PID, syscall.SIGKILL)
	}
	t.ended(r.Wait(t), 5).Prints(t, "restart 1 of 2: rank 1", "restart 2 of 2: rank 1", "(attempt 3 of 3)", "rank      : 1").OneFailureBlock(t)
	if s := p.Summary(t, 1); s.Restarts != 2 || s.Status != "failed" {
		t.Errorf("summary %+v", s)
	}
	t.saw("three attempts told")
}
