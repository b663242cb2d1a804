package app

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/engine/cpu"
)

// BenchStep measures the operations of one rank's training step as the
// configuration plans it, on synthetic data. It starts and opens what Forecast does.
func BenchStep(ctx context.Context, o ForecastOptions, budget time.Duration) (*bench.StepReport, error) {
	c, f := o.Config, newForecaster(ctx, o)
	if err := f.plan(ctx); err != nil {
		return nil, err
	}
	m, err := bench.Measure(budget / 10)
	if err != nil {
		return nil, err
	}
	threads := c.Launch.Threads(f.nproc, cgroup.Cores())
	steps, err := bench.Steps(ctx, f.outline.Plan, cpu.NewParallel(threads), &m, threads, budget)
	if err != nil {
		return nil, err
	}
	return &bench.StepReport{Model: c.Model.Name, Batch: f.outline.Batch, Threads: threads, Machine: m, Steps: steps}, nil
}
