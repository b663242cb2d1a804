package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"github.com/trainctl/trainctl/bench/internal/pairs"
)

const port = "29473"

// spinArg makes this program a process that keeps its core busy.
const spinArg = "spin"

func spin() {
	for n := 0; ; n++ {
		_ = n
	}
}

// shares compares even and automatic shares of two nodes with a rank and a core each; the core of the
// first one also runs another process.
func (b *measuring) shares(ctx context.Context, r *report) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	busy := exec.CommandContext(ctx, "taskset", "-c", "0", exe, spinArg)
	if err := busy.Start(); err != nil {
		return err
	}
	r.Shares, err = pairs.Compare(b.w, b.pairs, "steps per second with even and automatic shares, one of two ranks slowed", func(auto bool) (float64, error) {
		launch := "nnodes = 2\nnproc_per_node = 1\n"
		if auto {
			launch += "shares = \"auto\"\n"
		}
		all, err := b.runs(convnet(launch, b.steps), func(t *trial) error {
			for i := range 2 {
				args := t.args("--node-rank", strconv.Itoa(i), "--rdzv-endpoint", "127.0.0.1:"+port)
				if err := t.start(exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(i)}, args...)...)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		return rate(all), nil
	})
	return errors.Join(err, busy.Process.Kill(), ended(busy))
}

// ended waits for a process that was killed.
func ended(c *exec.Cmd) error {
	if err := c.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}

// rate is how many steps a second has in the second half of a run, when shares have settled.
func rate(all []step) float64 {
	first, last := all[len(all)/2], all[len(all)-1]
	return float64(last.n-first.n) / last.at.Sub(first.at).Seconds()
}
