package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trainctl/trainctl/core/report/event"
)

// Endless returns settings for a run that does not end by itself. A collective or a
// batch that takes longer than 4 s is a failure.
func Endless(more ...string) []string {
	return Set(append([]string{
		"train.epochs=1000000", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="never"`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`,
	}, more...)...)
}

// Unhurried are settings of an endless run whose failures must be noticed before any deadline passes.
var Unhurried = []string{`backend.timeout="5m"`, `dataset.timeout="5m"`}

// FP16 is a precision whose plugin is called in every step.
const FP16 = `precision={plugin="amp", options={level="O1", dtype="fp16"}}`

// StartEndless starts an endless run and waits until it trains.
func (p *Place) StartEndless(t TB, more ...string) *Proc {
	t.Helper()
	r := p.Start(t, append([]string{"run", p.Config}, Endless(more...)...)...)
	p.WaitForSteps(t, r, 1, 3)
	return r
}

func Signal(t TB, pid int, sig syscall.Signal) {
	t.Helper()
	Must(t, syscall.Kill(pid, sig))
}

// Steps3200 returns settings for a run of 3,200 steps with batch norm, dropout, evaluations and checkpoints.
func Steps3200(more ...string) []string {
	return Set(append([]string{
		"train.epochs=8", "dataset.options.train_samples=6400", "train.log_freq=1000000", `checkpoint.every="300 steps"`, "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 8, 8]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)
}

// FreePort returns a port without a listener, as FreePorts does.
func FreePort(t TB) int {
	t.Helper()
	return FreePorts(t, 1)
}

// FreePorts returns the first of n neighbouring ports without a listener. They are below those from
// which the system takes ports for outgoing connections, so that none is taken before it is used.
func FreePorts(t TB, n int) int {
	t.Helper()
	for range 100 {
		first := 12000 + rand.IntN(20000-n)
		free := true
		for port := first; free && port < first+n; port++ {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
			if free = err == nil; free {
				Must(t, l.Close())
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no free range of ports")
	return 0
}

// StartRank starts a worker as torchrun --no-python does.
func (p *Place) StartRank(t TB, rank, size, port int, args ...string) *Proc {
	t.Helper()
	return p.RankCommand(rank, size, port, args...).Start(t)
}

// RankCommand prepares the process that StartRank starts.
func (p *Place) RankCommand(rank, size, port int, args ...string) *Proc {
	r := p.Command(append([]string{"worker", p.Config}, args...)...)
	r.Cmd.Env = append(r.Cmd.Env,
		fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("LOCAL_RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", size), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", size),
		"GROUP_RANK=0", "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port), "TORCHELASTIC_RUN_ID=by-hand", "TORCHELASTIC_RESTART_COUNT=0",
	)
	return r
}

// JobSecret is the secret of jobs of several machines.
var JobSecret = strings.Repeat("5ec2e7", 11)

// Node prepares the launcher of one of two machines. Only the first one writes its
// runs to where the place's methods look for them.
func (p *Place) Node(rank int, endpoint string, args ...string) *Proc {
	dir := filepath.Join(p.Dir, []string{"runs", "elsewhere"}[rank])
	r := p.Command(append([]string{"run", p.Config, "--nnodes", "2", "--node-rank", fmt.Sprint(rank), "--rdzv-endpoint", endpoint, "--run-dir", dir}, args...)...)
	r.Cmd.Env = append(r.Cmd.Env, "TRAINCTL_JOB_SECRET="+JobSecret)
	return r
}

// Steps800 returns the command line of a run of 800 steps that saves every 16 steps, with batch norm,
// dropout and momentum. It takes some seconds.
func Steps800(more ...string) []string {
	return append([]string{"run", "job.toml"}, Set(append([]string{
		"train.epochs=200", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="16 steps"`, "checkpoint.keep=2", "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 4, 4]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)...)
}

// Complete runs a command line, undisturbed, and returns the run's summary.
func (p *Place) Complete(t TB, n int, args ...string) event.Summary {
	t.Helper()
	p.Trainctl(t, args...).Expect(t, 0)
	return p.Summary(t, n)
}

// StartWriter starts a worker of one rank that writes into the n-th run's directory.
func (p *Place) StartWriter(t TB, n int) *Proc {
	t.Helper()
	r := p.Command("worker", p.Config)
	r.Cmd.Env = append(r.Cmd.Env, "TRAINCTL_RUN_DIR="+p.RunDir(n), "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
		"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", FreePort(t)))
	return r.Start(t)
}

// AddFaultyPlugin puts the plugin e2e/testdata/faulty into the place.
func (p *Place) AddFaultyPlugin(t TB) {
	t.Helper()
	p.AddProgram(t, "e2e/testdata/faulty")
}

// FaultArgs returns settings of an endless run in which the plugin of a kind has a fault.
func (p *Place) FaultArgs(kind, what string) []string {
	return Endless(kind+`.plugin="./faulty"`, fmt.Sprintf("%s.options.fault=%q", kind, what))
}
