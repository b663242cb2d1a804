package rig

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trainctl/trainctl/core/report/event"
)

// Endless trains until something ends it. A collective or a batch that takes
// longer than 4 s counts as a fault.
func Endless(more ...string) []string {
	return Set(append([]string{
		"train.epochs=1000000", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="never"`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`,
	}, more...)...)
}

// FP16 makes the precision plugin work in every step.
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

// Steps3200 is a run of 3,200 steps with batch norm, dropout, evaluations and checkpoints.
func Steps3200(more ...string) []string {
	return Set(append([]string{
		"train.epochs=8", "dataset.options.train_samples=6400", "train.log_freq=1000000", `checkpoint.every="300 steps"`, "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 8, 8]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)
}

// FreePort is a port that nobody listens on at the moment.
func FreePort(t TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// StartRank starts a worker as torchrun --no-python does.
func (p *Place) StartRank(t TB, rank, size, port int, args ...string) *Proc {
	t.Helper()
	return p.RankCommand(rank, size, port, args...).Start(t)
}

// RankCommand prepares what startRank starts.
func (p *Place) RankCommand(rank, size, port int, args ...string) *Proc {
	r := p.Command(append([]string{"worker", p.Config}, args...)...)
	r.Cmd.Env = append(r.Cmd.Env,
		fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("LOCAL_RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", size), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", size),
		"GROUP_RANK=0", "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port), "TORCHELASTIC_RUN_ID=by-hand", "TORCHELASTIC_RESTART_COUNT=0",
	)
	return r
}

// Node prepares the launcher of one machine of two. Only the first keeps its
// files where the place looks for runs.
func (p *Place) Node(rank int, endpoint string, args ...string) *Proc {
	dir := filepath.Join(p.Dir, []string{"runs", "elsewhere"}[rank])
	r := p.Command(append([]string{"run", p.Config, "--nnodes", "2", "--node-rank", fmt.Sprint(rank), "--rdzv-endpoint", endpoint, "--run-dir", dir}, args...)...)
	r.Cmd.Env = append(r.Cmd.Env, "TRAINCTL_JOB_SECRET="+strings.Repeat("5ec2e7", 11))
	return r
}

// Steps800 is a run of 800 steps that saves every 16 of them, with batch norm,
// dropout and momentum. It takes some seconds.
func Steps800(more ...string) []string {
	return append([]string{"run", "job.toml"}, Set(append([]string{
		"train.epochs=200", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="16 steps"`, "checkpoint.keep=2", "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 4, 4]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)...)
}

// Complete runs a command line undisturbed and gives its run's summary.
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

// AddFaultyPlugin puts the plugin that misbehaves into the place.
func (p *Place) AddFaultyPlugin(t TB) {
	t.Helper()
	p.AddProgram(t, "e2e/testdata/faulty")
}

// FaultArgs are the settings that give a kind of plugin a fault.
func (p *Place) FaultArgs(kind, what string) []string {
	return Endless(kind+`.plugin="./faulty"`, fmt.Sprintf("%s.options.fault=%q", kind, what))
}
