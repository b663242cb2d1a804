package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
)

// settled is how many steps at the start of a run do not count.
const settled = 50

// convnet is the configuration of a job with a table [launch] and the number of steps, 0 for a job that
// runs until it is stopped.
func convnet(launch string, steps int) string {
	until := "epochs = 1000000\n"
	if steps > 0 {
		until += fmt.Sprintf("max_steps = %d\n", steps)
	}
	return common(launch, until+"global_batch = 128\nper_rank_batch = 64\n") + "[dataset.options]\nshape = [1, 28, 28]\ntrain_samples = 8192\ntest_samples = 0\n[model]\nname = \"convnet\"\n"
}

func common(launch, train string) string {
	return `[run]
name = "elastic"
deterministic = false
[launch]
threads_per_rank = 1
` + launch + `
[train]
eval_every = 0
` + train + `
[checkpoint]
every = "never"
[optimizer]
momentum = 0.9
lr = 0.01
name = "sgd"
[dataset]
plugin = "synthetic"
`
}

// trial is one job with a directory of its own.
type trial struct {
	dir      string
	trainctl string
	nodes    []*node
}

// node is a launcher.
type node struct {
	*exec.Cmd
	out   bytes.Buffer
	ended chan struct{}
	err   error
}

func (b *measuring) newTrial(config string) (*trial, error) {
	dir, err := os.MkdirTemp(b.dir, "job-")
	if err != nil {
		return nil, err
	}
	return &trial{dir: dir, trainctl: b.trainctl}, os.WriteFile(filepath.Join(dir, "job.toml"), []byte(config), 0o644)
}

// runs runs a job to its end and returns its steps.
func (b *measuring) runs(config string, start func(*trial) error) ([]step, error) {
	t, err := b.newTrial(config)
	if err != nil {
		return nil, err
	}
	defer t.stop()
	if err := start(t); err != nil {
		return nil, err
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	all, err := t.steps()
	if err == nil && len(all) < 2*settled {
		err = fmt.Errorf("only %d steps are in the events", len(all))
	}
	return all, err
}

// args are the command of a launcher.
func (t *trial) args(args ...string) []string {
	return append([]string{t.trainctl, "run", filepath.Join(t.dir, "job.toml"), "--run-dir", t.dir, "--progress", "none"}, args...)
}

// start starts a launcher, or any other program of the trial.
func (t *trial) start(cmd *exec.Cmd) error {
	n := &node{Cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(os.Environ(), "TRAINCTL_JOB_SECRET="+strings.Repeat("elastic ", 8))
	cmd.Stdout, cmd.Stderr = &n.out, &n.out
	if err := cmd.Start(); err != nil {
		return err
	}
	t.nodes = append(t.nodes, n)
	go func() {
		defer close(n.ended)
		n.err = cmd.Wait()
	}()
	return nil
}

// wait waits for all nodes and returns their errors.
func (t *trial) wait() error {
	for i, n := range t.nodes {
		if <-n.ended; n.err != nil {
			return fmt.Errorf("node %d: %w\n%s", i, n.err, n.out.String())
		}
	}
	return nil
}

// stop kills what still runs.
func (t *trial) stop() {
	for _, n := range t.nodes {
		kill(n.Process.Pid)
		<-n.ended
	}
}

// kill kills a process and its descendants, as a loss of power does.
func kill(pid int) { sendAll(pid, syscall.SIGSTOP, syscall.SIGKILL) } // stopped, it starts no others meanwhile

// pause stops a process and its descendants, and resume continues them: a rank after its plugins.
func pause(pid int)  { sendAll(pid, syscall.SIGSTOP, 0) }
func resume(pid int) { sendAll(pid, 0, syscall.SIGCONT) }

// sendAll sends a signal to a process before its descendants, and another one after them; 0 is none.
func sendAll(pid int, before, after syscall.Signal) {
	send := func(s syscall.Signal) {
		if s != 0 {
			_ = syscall.Kill(pid, s) // it may have ended
		}
	}
	send(before)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for child := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				sendAll(n, before, after)
			}
		}
	}
	send(after)
}

// step is a step of a job.
type step struct {
	n     int
	at    time.Time // its end
	ms    float64
	group string // changes with the ranks
}

// events are those of a trial so far.
func (t *trial) events() (all []event.Record, err error) {
	f, err := os.Open(filepath.Join(t.dir, "elastic", "latest", "events.jsonl"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if r, err := event.Decode(lines.Bytes()); err == nil { // the last line may be unfinished
			all = append(all, r)
		}
	}
	return all, lines.Err()
}

// steps are those that a trial has ended so far.
func (t *trial) steps() (all []step, err error) {
	records, err := t.events()
	changes := 0
	for _, r := range records {
		switch e := r.Event.(type) {
		case *event.Elastic:
			changes++
		case *event.StepDone:
			all = append(all, step{e.Step, r.Time, e.StepMS, strconv.Itoa(changes)})
		}
	}
	return all, err
}

// reaches waits until steps have a property, and returns them.
func (t *trial) reaches(ctx context.Context, steps func() ([]step, error), enough func([]step) bool) (all []step, err error) {
	err = t.until(ctx, func() (bool, error) {
		all, err = steps()
		return err == nil && enough(all), err
	})
	return all, err
}

// until waits for a condition while the first node runs.
func (t *trial) until(ctx context.Context, is func() (bool, error)) error {
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.nodes[0].ended:
			return fmt.Errorf("it has ended early: %v\n%s", t.nodes[0].err, t.nodes[0].out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
