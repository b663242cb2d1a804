package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/bench/internal/pairs"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// report is what -json writes.
type report struct {
	Date    string       `json:"date"`
	Machine string       `json:"machine"`
	StepMS  []pairs.Pair `json:"step_ms"` // alone and watched
	Watched []watched    `json:"watched"`
}

// watched is what following a run has cost.
type watched struct {
	Seconds   float64 `json:"seconds"`    // that the run was followed
	ServerCPU float64 `json:"server_cpu"` // seconds of processor time of trainctl ui
	Updates   int     `json:"updates"`
	Bytes     int64   `json:"bytes"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ExitOnError)
	n := flags.Int("pairs", 7, "runs of each side")
	steps := flags.Int("steps", 4000, "steps of a run")
	out := flags.String("json", "", "write everything to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || *steps < 100 {
		return fmt.Errorf("-pairs %d -steps %d; fix: at least 1 pair and 100 steps", *n, *steps)
	}
	dir, err := os.MkdirTemp("", "trainctl-watch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &measuring{dir: dir, steps: *steps}
	if b.trainctl, b.root, err = bench.Build(ctx, dir); err != nil {
		return err
	}
	r := report{Date: time.Now().UTC().Format(time.RFC3339), Machine: bench.MachineName()}
	fmt.Fprintf(w, "%s, %s\n", r.Machine, r.Date)
	r.StepMS, err = pairs.Compare(w, *n, "a step alone and watched, ms", func(watching bool) (float64, error) {
		if !watching {
			return b.train(ctx, nil)
		}
		ms, cost, err := b.watched(ctx)
		r.Watched = append(r.Watched, cost)
		return ms, err
	})
	if err != nil {
		return err
	}
	var share []float64
	for _, c := range r.Watched {
		share = append(share, 1000*c.ServerCPU/c.Seconds)
	}
	last := r.Watched[len(r.Watched)-1]
	fmt.Fprintf(w, "processor time of trainctl ui, ms per second of the run: %.2f, of %d runs between %.2f and %.2f; the last was followed for %.1f s with %d updates of %d bytes\n",
		pairs.Median(share), len(share), slices.Min(share), slices.Max(share), last.Seconds, last.Updates, last.Bytes)
	return bench.Save(*out, r)
}

// measuring is one run of the command.
type measuring struct {
	trainctl, root string
	dir            string // for everything that runs write
	steps          int
}

// name is that of the runs.
const name = "watched"

// train trains in a new run directory, which it passes to started, and returns the median step.
func (b *measuring) train(ctx context.Context, started func(base string)) (float64, error) {
	base, err := os.MkdirTemp(b.dir, "runs-")
	if err != nil {
		return 0, err
	}
	args := []string{"run", filepath.Join(b.root, "configs", "mnist-ddp.toml"), "--run-dir", base, "--progress", "none"}
	for _, set := range []string{
		"run.name=" + name, "launch.nproc_per_node=2", "launch.threads_per_rank=1", "train.epochs=1000000", fmt.Sprint("train.max_steps=", b.steps),
		"train.eval_every=0", `checkpoint.every="never"`, `checkpoint.keep_best=""`,
	} {
		args = append(args, "--set", set)
	}
	cmd := exec.CommandContext(ctx, b.trainctl, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir = b.dir // data sets are kept below it
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if started != nil {
		started(base)
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("training: %w", err)
	}
	d, err := event.OpenRunDir(afero.NewOsFs(), filepath.Join(base, name, "1"))
	if err != nil {
		return 0, err
	}
	r, err := rundir.ReadBrief(afero.NewOsFs(), d)
	if err != nil || r.Summary == nil {
		return 0, errors.Join(err, fmt.Errorf("the run in %s has no summary", d.Path))
	}
	return float64(r.Summary.Train.StepMSP50), nil
}

// watched trains while a client follows the run.
func (b *measuring) watched(ctx context.Context) (ms float64, cost watched, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var s *server
	var followed chan error
	ms, err = b.train(ctx, func(base string) {
		followed = make(chan error, 1)
		var problem error
		if s, problem = serve(ctx, b.trainctl, base); problem != nil {
			followed <- problem
			return
		}
		go func() { followed <- s.follow(ctx, name+"/1", &cost) }()
	})
	if s != nil {
		cost.ServerCPU = bench.CPUTime(s.cmd.Process.Pid).Seconds()
	}
	cancel()
	if followed != nil {
		err = errors.Join(err, <-followed)
	}
	if s != nil {
		s.stop()
	}
	return ms, cost, err
}
