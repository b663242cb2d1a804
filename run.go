package trainctl

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/internal/builtins"
)

// A program that uses the library is started again to put a plugin into its sandbox. Nothing of its own, such as the
// tests of a test binary, runs in that process.
func init() { host.ServeBuiltin(nil, os.Args[1:]) }

// calls counts calls of Run.
var calls atomic.Int64

// Run trains what the configuration says, on this host's ranks, and returns when all of them have
// ended. It writes the files of the run under run.dir, as the command does.
//
// When ctx ends, ranks finish their step, save a checkpoint, and the error is a *RunError whose
// ExitCode is 75. Run leaves signals that end the program to the program: with signal.NotifyContext,
// SIGINT and SIGTERM, which the stop button of trainctl ui sends, save a checkpoint first. SIGUSR1
// saves one, and training continues. A configuration with mistakes is a *config.Error that lists all of them, each with
// its place. If a rank fails, the error is a *RunError; for ranks that are threads it wraps the rank's
// own error. A result is returned with a *RunError as well, if the run had begun.
func Run(ctx context.Context, cfg Config, options ...Option) (*Result, error) {
	first := calls.Add(1) == 1
	s := newSettings(options)
	for _, c := range s.events {
		f := forward(ctx, c)
		defer f.Close()
		s.sinks = append(s.sinks, f)
	}
	plugins := append(s.values, builtins.List()...)
	if IsRank() {
		os.Exit(serveRank(ctx, os.Getenv(envConfig), plugins))
	}
	if _, err := kernel.Active(); err != nil {
		return nil, err
	}
	h := host.New(host.Options{Builtins: plugins})
	c, err := cfg.load(s.set, app.CheckPlugins(ctx, h, plugins))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.RefuseFaults(), app.LocateData(c, plugins)); err != nil {
		return nil, err
	}
	if !c.Launch.AreThreads() {
		if err := s.mayStartAgain(first); err != nil {
			return nil, err
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, launch.SaveSignal)
	defer signal.Stop(signals)
	dir, err := os.MkdirTemp("", "trainctl-weights-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o := app.Options{
		Config: c, Request: train.Request{Resume: s.resume, Build: app.Version(), Started: time.Now()}, Builtins: plugins, InProcess: true,
		Signals: signals, Weights: filepath.Join(dir, "weights.safetensors"), Log: io.Discard,
	}
	o.Rank = func(config, resume string) (args, env []string) {
		return s.rankArgs, []string{envConfig + "=" + config, envResume + "=" + resume, envWeights + "=" + o.Weights}
	}
	return s.run(ctx, o)
}

func (s *settings) run(ctx context.Context, o app.Options) (*Result, error) {
	o.Sinks = s.sinks
	var text bytes.Buffer // of the failure block
	o.Log = &text
	if s.log != nil {
		progress := event.NewProgress(s.log, event.ProgressOptions{Mode: "plain"})
		o.Log = progress
		o.Sinks = append(o.Sinks, progress)
	}
	end, err := app.Launch(ctx, o)
	return newResult(end, err, o.Weights)
}

// mayStartAgain refuses ranks as processes where main would not come to the same call of Run.
func (s *settings) mayStartAgain(first bool) error {
	const fix = "fix: use trainctl.Threads()"
	switch {
	case s.rankArgs != nil: // the caller has chosen them for this call
		return nil
	case flag.Lookup("test.run") != nil:
		return fmt.Errorf("a rank that is a process would run all tests of this binary; %s, or trainctl.RankArgs(\"-test.run=^TestName$\") with the name of the test", fix)
	case !first:
		return errors.New("a rank that is a process runs main up to the first call of trainctl.Run, and this is another one; " + fix)
	}
	s.rankArgs = os.Args[1:]
	return nil
}

// IsRank reports whether this process is a rank that Run has started, so that the next call of Run
// runs it and does not return.
func IsRank() bool { return os.Getenv(envConfig) != "" }

// Environment variables of a rank that is a process.
const (
	envConfig  = "TRAINCTL_LIBRARY_CONFIG"  // path of the resolved configuration
	envResume  = "TRAINCTL_LIBRARY_RESUME"  // path of a checkpoint, or ""
	envWeights = "TRAINCTL_LIBRARY_WEIGHTS" // where rank 0 writes the trained weights
)

// serveRank runs the rank that this process is, and returns its exit code.
func serveRank(ctx context.Context, path string, plugins []host.Builtin) int {
	c, err := File(path).load(nil, nil)
	if err == nil {
		err = app.RunRank(ctx, app.Options{
			Config: c, Request: train.Request{Resume: os.Getenv(envResume), Build: app.Version()}, Builtins: plugins, InProcess: true,
			Weights: os.Getenv(envWeights), Log: os.Stderr,
		})
	}
	if text := app.LastWords(err); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	if err == nil {
		return launch.ExitOK
	}
	return app.RankCode(err)
}
