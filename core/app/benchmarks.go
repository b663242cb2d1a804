package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/data"
)

// BenchDataOptions configure a measurement of the data path.
type BenchDataOptions struct {
	Config   *config.Config // checked
	Builtins []host.Builtin
	Budget   time.Duration
}

// BenchData starts the dataset plugins of this host's ranks, opens the data and
// measures how fast batches come.
func BenchData(ctx context.Context, o BenchDataOptions) (r *bench.DataReport, err error) {
	c := o.Config
	machine, err := Survey(ctx, c.Run.Device)
	if err != nil {
		return nil, err
	}
	nproc := c.Launch.Nproc(len(machine.GPUs), cgroup.Cores())
	world, threads := nproc*max(1, c.Launch.Nnodes.Int()), c.Launch.Threads(nproc, cgroup.Cores())
	division, err := c.Divide(world)
	if err != nil {
		return nil, err
	}
	batch := division.Micro
	f := &feeder{c: c, world: world, nproc: nproc, batch: batch, feeds: make([]bench.Feed, nproc), sources: make([]*host.Dataset, nproc)}
	f.host = host.New(host.Options{
		Builtins: o.Builtins, Terms: c.Terms(), SetEnv: []string{fmt.Sprintf("GOMAXPROCS=%d", threads)},
	})
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx))) }()
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	sample := f.spec.Input.Bytes() + f.spec.Target.Bytes()
	first, results, err := bench.Data(ctx, f.feeds, bench.DataSpec{
		Batch: batch, Slots: train.LoaderSlots(c.Sampler), Seed: c.Run.Seed, SampleBytes: sample, Budget: o.Budget,
	})
	if err != nil {
		return nil, err
	}
	r = &bench.DataReport{
		Plugin: c.Dataset.Plugin, Source: f.spec.Source, Notice: f.spec.Notice, Samples: f.spec.TrainSamples, SampleBytes: sample,
		Batch: batch, Prefetch: train.LoaderSlots(c.Sampler) - 1, Ranks: nproc, Threads: threads, CPUs: cgroup.Cores(),
		FirstMS: event.Millis(first), Results: results,
	}
	r.Explain()
	return r, nil
}

// feeder holds the dataset plugins of the ranks on this host.
type feeder struct {
	c       *config.Config
	host    *host.Host
	world   int
	nproc   int
	batch   int
	sources []*host.Dataset // by local rank; nil: not started
	feeds   []bench.Feed
	spec    sdk.DatasetSpec // rank 0's, the same on all ranks
}

// open starts and opens all ranks' plugins at the same time, as a job does.
func (f *feeder) open(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for r := range f.nproc {
		g.Go(func() error { return f.openRank(ctx, r) })
	}
	return g.Wait()
}

func (f *feeder) openRank(ctx context.Context, r int) error {
	d, err := f.host.StartDataset(ctx, f.c.Dataset.Plugin)
	if err != nil {
		return err
	}
	d.Timeout, d.Validation = f.c.Dataset.Timeout, f.c.Dataset.Validation
	f.sources[r] = d
	options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, f.c.Dataset.Options)
	if err := problems.Err(); err != nil {
		return err
	}
	spec, err := d.Open(ctx, sdk.DatasetRequest{Options: options, Rank: r, LocalRank: r, WorldSize: f.world, Seed: f.c.Run.Seed})
	if err != nil {
		return err
	}
	if r == 0 {
		f.spec = spec
	}
	sampler, err := data.NewSampler(f.c.Sampler, f.c.Run.Seed, spec.TrainSamples, f.world, r)
	if err != nil {
		return err
	}
	f.feeds[r] = bench.Feed{Source: d, PID: d.PID(), Sampler: sampler}
	return d.Prepare(train.LoaderSlots(f.c.Sampler), f.batch)
}

func (f *feeder) close(ctx context.Context) (err error) {
	for _, d := range f.sources {
		if d != nil {
			err = errors.Join(err, d.Close(ctx))
		}
	}
	return err
}

// BenchStep measures the operations of one rank's training step as the
// configuration plans it, on synthetic data. It starts and opens what Forecast does.
func BenchStep(ctx context.Context, o ForecastOptions, budget time.Duration) (*bench.StepReport, error) {
	c, f := o.Config, newForecaster(ctx, o)
	defer f.close()
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
