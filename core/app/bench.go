package app

import (
	"context"
	"runtime"
	"time"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/cpu"
	"github.com/trainctl/trainctl/core/host"
)

// BenchStep measures the operations of one rank's training step as the
// configuration plans it, on made-up data. It starts nothing and opens no data.
func BenchStep(ctx context.Context, c *config.Config, builtins []host.Builtin, budget time.Duration) (*bench.StepReport, error) {
	f := newForecaster(ctx, c, builtins)
	if err := f.plan(ctx); err != nil {
		return nil, err
	}
	m, err := bench.Measure(budget / 10)
	if err != nil {
		return nil, err
	}
	threads := c.Launch.Threads(f.nproc, runtime.NumCPU())
	steps, err := bench.Steps(ctx, f.outline.Plan, cpu.NewParallel(threads), &m, threads, budget)
	if err != nil {
		return nil, err
	}
	return &bench.StepReport{Model: c.Model.Name, Batch: f.outline.Batch, Threads: threads, Machine: m, Steps: steps}, nil
}
