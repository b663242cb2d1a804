package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// healed is what the kill of a node cost the others.
type healed struct {
	Side     string  `json:"side"`
	Spared   string  `json:"spared"` // the node that cannot be killed
	Seconds  float64 `json:"to_next_step_s"`
	Repeated int     `json:"repeated_steps"` // that had ended before the kill
}

// beforeKill is how many steps a job runs before a node is killed; torchrun's saves after 100.
const beforeKill = 150

// heal kills one of three nodes: not node 0, which hosts what the others meet at, and is started first.
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
		fmt.Fprintf(b.w, "%s: %.2f s from the kill of one of three nodes to the next step of the others, who repeated %d steps; %s\n", h.Side, h.Seconds, h.Repeated, h.Spared)
	}
	return nil
}

func (b *measuring) healTrainctl(ctx context.Context) (h healed, err error) {
	t, err := b.newTrial(convnet("nnodes = \"1:4\"\nnproc_per_node = 1\n", 0))
	if err != nil {
		return h, err
	}
	defer t.stop()
	h = healed{Side: "trainctl", Spared: "without etcd, the job ends with node 0"}
	return t.killLast(ctx, h, t.steps, func(i int) *exec.Cmd {
		args := t.args("--node-rank", strconv.Itoa(i), "--rdzv-endpoint", "127.0.0.1:"+port)
		return exec.CommandContext(ctx, args[0], args[1:]...)
	})
}

// healTorchrun runs torch_elastic.py, which writes a line for each step. The agents of other nodes end with
// RendezvousConnectionError when the one that hosts the c10d store is killed.
func (b *measuring) healTorchrun(ctx context.Context) (h healed, err error) {
	t, err := b.newTrial("")
	if err != nil {
		return h, err
	}
	defer t.stop()
	log := filepath.Join(t.dir, "steps")
	h = healed{Side: "torchrun", Spared: "the job ends with the node that hosts the c10d store"}
	return t.killLast(ctx, h, func() ([]step, error) { return readSteps(log) }, func(int) *exec.Cmd {
		return exec.CommandContext(ctx, b.python, "-m", "torch.distributed.run", "--nnodes", "1:4", "--nproc-per-node", "1", "--max-restarts", "9",
			"--rdzv-backend", "c10d", "--rdzv-id", "elastic", "--rdzv-endpoint", "127.0.0.1:"+port, b.script, log)
	})
}

// killLast starts three nodes and kills the last one once they train. The others start when the first one
// listens, so that it is the host.
func (t *trial) killLast(ctx context.Context, h healed, steps func() ([]step, error), node func(i int) *exec.Cmd) (healed, error) {
	for i := range 3 {
		if err := t.start(node(i)); err != nil {
			return h, err
		}
		if err := t.until(ctx, func() (bool, error) { return listening(), nil }); err != nil {
			return h, err
		}
	}
	if _, err := t.reaches(ctx, steps, func(all []step) bool { return len(all) > 0 && all[len(all)-1].n >= beforeKill }); err != nil {
		return h, err
	}
	killed := time.Now()
	kill(t.nodes[2].Process.Pid)
	_, err := t.reaches(ctx, steps, func(all []step) (done bool) {
		h.Seconds, h.Repeated, done = healing(all, killed)
		return done
	})
	return h, err
}

// listening reports whether a node hosts what the others meet at.
func listening() bool {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// healing is the cost of a kill, once a new group has ended a step.
func healing(all []step, killed time.Time) (seconds float64, repeated int, done bool) {
	last, group := 0, ""
	for _, s := range all {
		if s.at.Before(killed) || s.group == group {
			last, group = s.n, s.group
			continue
		}
		return s.at.Sub(killed).Seconds(), max(0, last+1-s.n), true
	}
	return 0, 0, false
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
