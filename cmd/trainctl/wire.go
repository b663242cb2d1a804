package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/lossy"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/forecast"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// newServices connects the commands to the packages that do their work.
func newServices(started time.Time) *services {
	// of adds to the options of a command what the program knows about itself.
	of := func(o app.Options) app.Options {
		o.Builtins, o.Build, o.Started, o.ExitCode = builtins(), version(), started, exitCode
		return o
	}
	h := host.New(host.Options{Builtins: builtins()})
	return &services{
		CheckPlugin: func() (config.CheckPlugin, func()) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			return app.CheckPlugins(ctx, h, builtins()), cancel
		},
		Run:    func(ctx context.Context, o app.Options, d display) error { return run(ctx, of(o), d) },
		Worker: func(ctx context.Context, o app.Options, d display) error { return worker(ctx, of(o), d) },
		Plan: func(ctx context.Context, c *config.Config, openData bool) (*forecast.Report, error) {
			r, err := app.Forecast(ctx, app.ForecastOptions{Config: c, Builtins: builtins(), Host: h, OpenData: openData})
			return r, app.AtPlace(c, err)
		},
		CheckModel: func(ctx context.Context, c *config.Config) error {
			return app.CheckModel(ctx, app.ForecastOptions{Config: c, Builtins: builtins(), Host: h})
		},
		Bench: func(ctx context.Context, c *config.Config, budget time.Duration) (*bench.StepReport, error) {
			o := app.ForecastOptions{Config: c, Builtins: builtins(), Host: h, OpenData: true}
			return app.BenchStep(ctx, o, budget)
		},
		BenchData: func(ctx context.Context, c *config.Config, budget time.Duration) (*bench.DataReport, error) {
			return app.BenchData(ctx, app.BenchDataOptions{Config: c, Builtins: builtins(), Budget: budget})
		},
		Eval:    func(ctx context.Context, o app.Options) (evalResult, error) { return evaluate(ctx, of(o)) },
		Plugins: pluginServices(h),
	}
}

// ended is an exit code whose error was printed already.
type ended int

func (e ended) Error() string { return "run failed" }
func (e ended) ExitCode() int { return int(e) }

func run(ctx context.Context, o app.Options, d display) error {
	if err := app.LocateData(o.Config, o.Builtins); err != nil {
		return err
	}
	// The reader of the output may exit, as head does; training continues. The signal
	// is caught, not ignored, because ranks would inherit an ignored one. The signal
	// that requests a checkpoint is caught early, since it may come before training.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1)
	done := d.show(&o)
	defer done()
	code, err := app.Run(ctx, o)
	if err != nil {
		return ofRun(err, code)
	}
	if code != launch.ExitOK {
		return reported{ended(code)}
	}
	return nil
}

// show adds what shows a run as set by --events and --progress. Nothing of it blocks
// on a reader; done waits briefly for what is left.
func (d *display) show(o *app.Options) (done func()) {
	screen := lossy.NewWriter(d.stderr, lossy.Options{Notice: event.DroppedLines})
	progress := event.NewProgress(screen, event.ProgressOptions{Mode: d.progress, Env: os.LookupEnv})
	done = func() { _ = screen.Close() } // it fails only if nobody reads
	if d.events == "json" {
		events := lossy.NewWriter(d.stdout, lossy.Options{Limit: eventBytes, Notice: event.Dropped(event.Launcher)})
		done = func() {
			reportLost(screen, events)
			_ = screen.Close()
		}
		o.Sinks = append(o.Sinks, event.NewJSONLines(events, func(err error) {
			fmt.Fprintf(progress, "warning: %v; the run continues\n", err)
		}))
	}
	o.Sinks, o.Log = append(o.Sinks, progress), progress
	return done
}

// worker stops at the end of a step when it is signalled to end, so that all
// ranks save together. Before the first step there is nothing to save.
func worker(ctx context.Context, o app.Options, d display) error {
	launch.WatchLifeline(nil)
	stops := launch.StopSignals()
	if o.SaveAsked = countSignals(launch.SaveSignal); o.Config.Launch.Requeue {
		stops = append(stops, launch.SaveSignal)
	}
	ctx, stop := signal.NotifyContext(ctx, stops...)
	defer stop()
	o.ResumeAuto = o.Resume == "auto"
	done := d.show(&o)
	err := app.Worker(ctx, o)
	done()
	var stopped *train.Preempted
	if w, unknown := app.World(); errors.As(err, &stopped) && unknown == nil && w.LocalRank != 0 {
		return reported{err} // the first rank of the host reports it for all
	}
	return err
}

// countSignals catches a signal from now on and counts how often it came.
func countSignals(s os.Signal) func() int64 {
	var n atomic.Int64
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	go func() {
		for range c {
			n.Add(1)
		}
	}()
	return n.Load
}

func evaluate(ctx context.Context, o app.Options) (evalResult, error) {
	if err := app.FindCheckpoint(checkpoint.OsFS(), "--checkpoint", o.Config.Run.Dir, &o.Resume); err != nil {
		return evalResult{}, err
	}
	e, err := app.Evaluate(ctx, o)
	return evalResult{Checkpoint: e.Checkpoint, Step: e.Step, Samples: e.Samples, Loss: e.Loss, Accuracy: e.Accuracy, Tokens: e.Tokens, Perplexity: e.Perplexity, BitsPerByte: e.BitsPerByte}, err
}

// eventBytes is how far a reader of --events json may fall behind: some 30,000 steps.
const eventBytes = 8 << 20

// reportLost ends the stream of events and reports how many its reader did not read.
func reportLost(w io.Writer, events *lossy.Writer) {
	_ = events.Close() // a reader that has gone was reported already
	if n := events.Lost(); n > 0 {
		fmt.Fprintf(w, "warning: the reader of standard output was too slow: %d events were not written to it; the run's events.jsonl has them\n", n)
	}
}
