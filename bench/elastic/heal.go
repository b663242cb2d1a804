package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// healed is what the kill of a node cost the others.
type healed struct {
	Side     string  `json:"side"`
	Seconds  float64 `json:"to_next_step_s"`
	Repeated int     `json:"repeated_steps"` // that had ended before the kill
}

// beforeKill is how many steps a job runs before a node is killed; torchrun's saves after 100.
const beforeKill = 150

// heal kills one of three nodes.
func (b *measuring) heal(ctx context.Context, r *report) error {
	sides := []func(context.Context) (healed, error){b.healTrainctl}
	if b.python != "" {
		sides = append(sides, b.healTorchrun)
	}
	for _, side := range sides {
		h, err := side(ctx)
		if err != nil {
			return err
		}
		r.Heal = append(r.Heal, h)
		fmt.Fprintf(b.w, "%s: %.2f s from the kill of one of three nodes to the next step of the others, who repeated %d steps\n", h.Side, h.Seconds, h.Repeated)
	}
	return nil
}

func (b *measuring) healTrainctl(ctx context.Context) (h healed, err error) {
	t, err := b.newTrial(convnet("nnodes = \"1:4\"\nnproc_per_node = 1\n", 0))
	if err != nil {
		return h, err
	}
	defer t.stop()
	for i := range 3 {
		args := t.args("--node-rank", strconv.Itoa(i), "--rdzv-endpoint", "127.0.0.1:"+port)
		if err := t.start(exec.CommandContext(ctx, args[0], args[1:]...)); err != nil {
			return h, err
		}
	}
	return t.killLast(ctx, "trainctl", t.steps)
}

// healTorchrun runs torch_elastic.py, which writes a line for each step.
func (b *measuring) healTorchrun(ctx context.Context) (h healed, err error) {
	t, err := b.newTrial("")
	if err != nil {
		return h, err
	}
	defer t.stop()
	log := filepath.Join(t.dir, "steps")
	for range 3 {
		cmd := exec.CommandContext(ctx, b.python, "-m", "torch.distributed.run", "--nnodes", "1:4", "--nproc-per-node", "1", "--max-restarts", "9",
			"--rdzv-backend", "c10d", "--rdzv-id", "elastic", "--rdzv-endpoint", "127.0.0.1:"+port, b.script, log)
		if err := t.start(cmd); err != nil {
			return h, err
		}
	}
	return t.killLast(ctx, "torchrun", func() ([]step, error) { return readSteps(log) })
}

// killLast kills the last node of a trial once three train.
func (t *trial) killLast(ctx context.Context, side string, steps func() ([]step, error)) (h healed, err error) {
	if _, err := t.reaches(ctx, steps, func(all []step) bool { return len(all) > 0 && all[len(all)-1].n >= beforeKill }); err != nil {
		return h, err
	}
	killed := time.Now()
	kill(t.nodes[2].Process.Pid)
	h.Side = side
	_, err = t.reaches(ctx, steps, func(all []step) bool {
		var done bool
		h, done = healing(side, all, killed)
		return done
	})
	return h, err
}

// healing is the cost of a kill, once a new group has ended a step.
func healing(side string, all []step, killed time.Time) (h healed, done bool) {
	last, group := 0, ""
	for _, s := range all {
		if s.at.Before(killed) || s.group == group {
			last, group = s.n, s.group
			continue
		}
		return healed{Side: side, Seconds: s.at.Sub(killed).Seconds(), Repeated: max(0, last+1-s.n)}, true
	}
	return h, false
}

// readSteps reads lines of a step's number, its end in seconds since 1970, and its group.
func readSteps(path string) (all []step, err error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var s step
		var at float64
		if _, err := fmt.Sscan(string(line), &s.n, &at, &s.group); err == nil && bytes.HasSuffix(line, []byte("\n")) {
			s.at = time.UnixMicro(int64(at * 1e6))
			all = append(all, s)
		}
	}
	return all, err
}
