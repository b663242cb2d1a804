package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
)

// endless trains until something ends it. A collective or a batch that takes
// longer than 4 s counts as a fault.
func endless(more ...string) []string {
	return set(append([]string{
		"train.epochs=1000000", "train.eval_every=0", "train.log_freq=1000000", `checkpoint.every="never"`,
		`backend.timeout="4s"`, `dataset.timeout="4s"`,
	}, more...)...)
}

// scaled makes the precision plugin work in every step.
const scaled = `precision={plugin="amp", options={level="O1", dtype="fp16"}}`

// underWay starts an endless run and waits until it trains.
func (p *place) underWay(t tester, more ...string) *proc {
	t.Helper()
	r := p.start(t, append([]string{"run", p.config}, endless(more...)...)...)
	p.trained(t, r, 1, 3)
	return r
}

func kill(t tester, pid int, sig syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, sig))
}

// long is a run of 3,200 steps with batch norm, dropout, evaluations and checkpoints.
func long(more ...string) []string {
	return set(append([]string{
		"train.epochs=8", "dataset.options.train_samples=6400", "train.log_freq=1000000", `checkpoint.every="300 steps"`, "optimizer.momentum=0.9",
		"dataset.options.shape=[1, 8, 8]",
		`model.layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="flatten"}, {type="dropout"}, {type="linear", out_features=4}]`,
		`backend.timeout="4s"`, `backend.init_timeout="20s"`,
	}, more...)...)
}

// restartsOf are the backend's restarts that rank 0 tells of in events.jsonl.
func (p *place) restartsOf(t tester, n int) (found []*event.BackendRestarted) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.runDir(n), "events.jsonl"))
	must(t, err)
	for line := range bytes.Lines(b) {
		r, err := event.Decode(line)
		if err != nil {
			continue // the reader is ahead of the writer
		}
		if e, ok := r.Event.(*event.BackendRestarted); ok {
			found = append(found, e)
		}
	}
	return found
}

func sameParams(t tester, a, b event.Summary) {
	t.Helper()
	if len(a.ParamsSHA256) == 0 || !slices.Equal(a.ParamsSHA256, b.ParamsSHA256) {
		t.Errorf("params_sha256 differ: %v and %v", a.ParamsSHA256, b.ParamsSHA256)
	}
}

// freePort is a port that nobody listens on at the moment.
func freePort(t tester) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startRank starts a worker as torchrun --no-python does.
func (p *place) startRank(t tester, rank, size, port int, args ...string) *proc {
	t.Helper()
	return p.rankCommand(rank, size, port, args...).start(t)
}

// rankCommand prepares what startRank starts.
func (p *place) rankCommand(rank, size, port int, args ...string) *proc {
	r := p.command(append([]string{"worker", p.config}, args...)...)
	r.cmd.Env = append(r.cmd.Env,
		fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("LOCAL_RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", size), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", size),
		"GROUP_RANK=0", "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port), "TORCHELASTIC_RUN_ID=by-hand", "TORCHELASTIC_RESTART_COUNT=0",
	)
	return r
}

// rankLog is the log of a rank in the n-th run.
func (p *place) rankLog(t tester, n, rank int) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.runDir(n), "logs", fmt.Sprintf("rank-%d.log", rank)))
	must(t, err)
	return string(b)
}

// node prepares the launcher of one machine of two. Only the first keeps its
// files where the place looks for runs.
func (p *place) node(rank int, endpoint string, args ...string) *proc {
	dir := filepath.Join(p.dir, []string{"runs", "elsewhere"}[rank])
	r := p.command(append([]string{"run", p.config, "--nnodes", "2", "--node-rank", fmt.Sprint(rank), "--rdzv-endpoint", endpoint, "--run-dir", dir}, args...)...)
	r.cmd.Env = append(r.cmd.Env, "TRAINCTL_JOB_SECRET="+strings.Repeat("5ec2e7", 11))
	return r
}

// report is what doctor knows of the n-th run.
func (p *place) report(t tester, n int) flight.Report {
	t.Helper()
	var r flight.Report
	must(t, json.Unmarshal([]byte(p.trainctl(t, "doctor", "--json", "--run", p.runDir(n)).expect(t, 0).stdout), &r))
	return r
}
