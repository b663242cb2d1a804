package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/bench/internal/pairs"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/report/event"
)

// job is one training job to measure.
type job struct {
	Ranks int `json:"ranks"`
	Hosts int `json:"hosts"` // network namespaces; 0: none, all ranks are on this host
	Batch int `json:"batch"` // per rank

	Isolation string `json:"isolation"` // launch.isolation
}

// measured is what a job took.
type measured struct {
	job
	FirstStepS float64            `json:"to_first_step_s"` // from the start of the launcher
	StartCPUS  float64            `json:"start_cpu_s"`     // CPU time of all processes until then
	PhaseS     map[string]float64 `json:"phase_s"`         // of that, by phase of rank 0; "" is before the first
	Usage      bench.Usage        `json:"usage"`           // of all processes, in the steady state
	StepMS     float64            `json:"step_ms_p50"`
	StepCPUMS  float64            `json:"step_cpu_ms"` // CPU time of all processes for a step
	CommMS     float64            `json:"comm_ms_p50"` // waits for communication and for other ranks
	Buckets    int                `json:"buckets"`
	Bytes      int64              `json:"bytes_per_step"`
	Messages   int                `json:"store_messages"` // between rank 0 and the store

	looked int           // steps that were done when the CPU time was
	before time.Duration // the CPU time
}

// steps is how many steps a job runs: enough for a median, and for a look at its processes.
func (j *job) steps() int { return max(60, 2400/j.Ranks) }

func (j *job) config() string {
	return fmt.Sprintf(`[run]
name = "scale"
[launch]
threads_per_rank = 1
isolation = %q
[train]
max_steps = %d
epochs = 100000
per_rank_batch = %d
eval_every = 0
[dataset]
plugin = "synthetic"
[dataset.options]
shape = [1, 28, 28]
train_samples = 8192
test_samples = 0
[model]
name = "convnet"
[optimizer]
name = "sgd"
lr = 0.01
[checkpoint]
every = "never"
`, j.Isolation, j.steps(), j.Batch)
}

// runner starts jobs.
type runner struct {
	trainctl string
	dir      string // for everything that jobs write
}

// run runs a job to its end. The time of the first step includes that of the launchers.
func (r *runner) run(ctx context.Context, j job) (m measured, err error) {
	dir, err := os.MkdirTemp(r.dir, "job-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	hosts := &bench.Hosts{}
	if j.Hosts > 0 {
		if hosts, err = bench.NewHosts(j.Hosts); err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, hosts.Close()) }()
	}
	if err := os.WriteFile(filepath.Join(dir, "job.toml"), []byte(j.config()), 0o644); err != nil {
		return m, err
	}
	began := time.Now()
	launchers, err := r.start(ctx, &j, dir, hosts)
	defer func() { err = errors.Join(err, wait(launchers)) }()
	if err != nil {
		return m, err
	}
	events := filepath.Join(dir, "scale", "latest", "events.jsonl")
	m.job = j
	if err := m.watch(ctx, launchers, events); err != nil {
		return m, err
	}
	if err := wait(launchers); err != nil {
		return m, err
	}
	m.stepCPU(launchers)
	if err := m.read(events, began); err != nil {
		return m, err
	}
	return m, m.summary(filepath.Join(filepath.Dir(events), "summary.json"))
}

// launcher is a running trainctl.
type launcher struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan struct{}
	err   error
}

// start starts the launcher of each host.
func (r *runner) start(ctx context.Context, j *job, dir string, hosts *bench.Hosts) (all []*launcher, err error) {
	args := []string{"run", filepath.Join(dir, "job.toml"), "--run-dir", dir, "--progress", "none"}
	for i := range max(1, j.Hosts) {
		l := &launcher{cmd: exec.CommandContext(ctx, r.trainctl, append(args, "--nproc-per-node", strconv.Itoa(j.Ranks))...), ended: make(chan struct{})}
		if j.Hosts > 0 {
			l.cmd = hosts.Command(ctx, i, r.trainctl, append(args, "--nproc-per-node", strconv.Itoa(j.Ranks/j.Hosts), "--nnodes", strconv.Itoa(j.Hosts),
				"--node-rank", strconv.Itoa(i), "--rdzv-endpoint", hosts.Addr(0)+":29400")...)
			l.cmd.Env = append(os.Environ(), "TRAINCTL_JOB_SECRET="+strings.Repeat("scale ", 8))
		}
		l.cmd.Cancel = func() error { return l.cmd.Process.Signal(syscall.SIGTERM) }
		l.cmd.WaitDelay = 10 * time.Second
		l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
		if err := l.cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, l)
		go func() {
			defer close(l.ended)
			l.err = l.cmd.Wait()
		}()
	}
	return all, nil
}

// wait waits for the launchers and returns their errors.
func wait(all []*launcher) (err error) {
	for _, l := range all {
		<-l.ended
		if l.err != nil {
			err = errors.Join(err, fmt.Errorf("trainctl: %w\n%s", l.err, strings.TrimSpace(l.out.String())))
		}
	}
	return err
}

// watch waits for the first step and looks at the processes.
func (m *measured) watch(ctx context.Context, launchers []*launcher, events string) error {
	first, err := stepsDone(ctx, launchers[0], events, 1)
	if first == 0 || err != nil {
		return err // without a step, read reports what is missing
	}
	for _, l := range launchers {
		m.Usage.Add(bench.UsageOf(l.cmd.Process.Pid))
	}
	m.StartCPUS = m.Usage.CPU.Seconds()
	if m.looked, err = stepsDone(ctx, launchers[0], events, 1); err != nil {
		return err
	}
	for _, l := range launchers {
		m.before += bench.CPUTime(l.cmd.Process.Pid)
	}
	return nil
}

// stepCPU is the CPU time of a step, of those after the look: all that the launchers and their
// descendants have used in the end, less what they had used then.
func (m *measured) stepCPU(launchers []*launcher) {
	total := -m.before
	for _, l := range launchers {
		total += l.cmd.ProcessState.UserTime() + l.cmd.ProcessState.SystemTime()
	}
	if left := m.steps() - m.looked; m.looked > 0 && left > 0 {
		m.StepCPUMS = float64(total.Microseconds()) / 1e3 / float64(left)
	}
}

// stepsDone waits until the event file has at least so many steps and returns their number; 0 if the
// launcher ends before that.
func stepsDone(ctx context.Context, l *launcher, events string, least int) (int, error) {
	step := []byte(`"` + (*event.StepDone)(nil).Kind() + `"`)
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-l.ended:
			return 0, nil
		case <-time.After(10 * time.Millisecond):
		}
		text, err := os.ReadFile(events)
		if n := bytes.Count(text, step); err == nil && n >= least {
			return n, nil
		}
	}
}

// settled is how many steps at the start do not count.
const settled = 10

// longestEvent is how many bytes a line of the events may have.
const longestEvent = 16 << 20

// read reads the events of rank 0.
func (m *measured) read(path string, began time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m.PhaseS = map[string]float64{}
	phase, since := "", began
	var steps, comm []float64
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestEvent)
	for lines.Scan() {
		r, err := event.Decode(lines.Bytes())
		if err != nil {
			continue
		}
		switch e := r.Event.(type) {
		case *event.PhaseChanged:
			if m.FirstStepS == 0 {
				m.PhaseS[phase] += r.Time.Sub(since).Seconds()
				phase, since = e.Phase, r.Time
			}
		case *event.PlanMade:
			m.Buckets, m.Bytes = e.Buckets, e.BytesPerStep
		case *event.StepDone:
			if m.FirstStepS == 0 {
				m.PhaseS[phase] += r.Time.Sub(since).Seconds()
				m.FirstStepS = r.Time.Sub(began).Seconds()
			}
			if e.Step > settled {
				steps, comm = append(steps, e.StepMS), append(comm, e.CommMS)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(steps) == 0 {
		return fmt.Errorf("%s has no steps after the %dth", path, settled)
	}
	m.StepMS, m.CommMS = pairs.Median(steps), pairs.Median(comm)
	return nil
}

// summary reads what only the summary has.
func (m *measured) summary(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s event.Summary
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m.Messages = s.Comm.StoreMessages
	return nil
}
