package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// modules are the parts of a worker, one per concern.
func modules(o Options) fx.Option {
	return fx.Options(
		fx.Supply(o),
		fx.Module("config", fx.Supply(o.Config)),
		fx.Module("fs", fx.Provide(openFS)),
		fx.Module("rank", fx.Provide(worldOf, jobSecret, startJoin, startAgreement)),
		fx.Module("event", fx.Provide(openEvents)),
		fx.Module("host", fx.Provide(newHost)),
		fx.Module("backend", fx.Provide(startBackend)),
		fx.Module("precision", fx.Provide(startPrecision)),
		fx.Module("dataset", fx.Provide(startDataset)),
		fx.Module("layers", fx.Provide(startLayers)),
		fx.Module("device", fx.Provide(survey, openDevice)),
		fx.Module("checkpoint", fx.Provide(openStore)),
		fx.Module("train", fx.Provide(newRunner)),
	)
}

// World reads this process's place in the job from its environment.
func World() (rank.World, error) { return rank.FromEnv(os.LookupEnv) }

func worldOf(o Options) (rank.World, error) {
	if t := o.place.thread; t != nil {
		return t.World, nil
	}
	return World()
}

// jobSecret is the shared secret of this rank's job.
func jobSecret(o Options, w rank.World, cfg *config.Config, bus *event.Bus) (secret.Secret, error) {
	if t := o.place.thread; t != nil {
		return t.Secret, nil
	}
	warnExposed(bus, secret.Take())
	return rank.SecretOf(w, cfg.Launch.SecretFile)
}

// warnExposed warns if plugins can still read the secret.
func warnExposed(bus *event.Bus, given secret.Given) {
	if err := given.Exposed; err != nil {
		bus.Emit(&event.Warning{Source: "secret", Message: fmt.Sprintf(
			"%s could not be removed from /proc/PID/environ of this process, where its plugins can read it: %v; fix: use launch.secret_file instead", secret.Env, err)})
	}
}

// newHost creates the host of this rank's plugins. Their log records become events,
// and they compute on the rank's share of the cores, under any launcher.
func newHost(o Options, w rank.World, bus *event.Bus, dir agreedDir) *host.Host {
	log := slog.New(logToEvents(bus))
	inside := inRank(o.Config, w, o.Builtins)
	if o.InProcess {
		inside = []sdk.Kind{sdk.KindBackend, sdk.KindPrecision, sdk.KindDataset}
	} else if crowded(o.Config, w) && len(inside) > 0 {
		slog.SetDefault(log) // for what they log
		if w.Rank == 0 {
			log.Info(fmt.Sprintf("built-in plugins of these kinds run in their ranks' processes, because %d ranks share %d cores or launch.isolation says so: %v; a crash of one ends its rank", w.LocalSize, cgroup.Cores(), inside))
		}
	}
	h := host.New(host.Options{
		InRank: inside, LocalRank: w.LocalRank,
		FlightDir: func() string { return flightDir(dir) }, Place: &w.Rank, SocketDir: o.place.sockets,
		Builtins: o.Builtins, Exe: o.Exe, Log: log, HangTimeout: hangTimeout(o.Config.Backend.Timeout),
		Terms:     o.Config.Terms(),
		PluginEnv: map[string][]string{o.Config.Backend.Plugin: o.Config.Backend.Env},
		SetEnv:    []string{fmt.Sprint("GOMAXPROCS=", threads(o.Config.Launch, w, os.LookupEnv))},
	})
	warnAttached(o.Config, w, h, bus)
	return h
}

// crowded reports whether all built-in plugins run in their ranks' processes.
func crowded(c *config.Config, w rank.World) bool {
	return c.Launch.InRank(w.LocalSize, cgroup.Cores())
}

// inRank are the kinds of built-in plugins that run in this rank's process: not those that have to
// be replaced if they fail, or made to fail.
func inRank(c *config.Config, w rank.World, builtins []host.Builtin) (kinds []sdk.Kind) {
	if c.Launch.Isolated() || len(c.Faults.At) > 0 {
		return nil
	}
	for _, k := range []struct {
		kind     sdk.Kind
		plugin   string
		restarts int
	}{{sdk.KindBackend, Backend(c), replacements(c)}, {sdk.KindDataset, c.Dataset.Plugin, c.Dataset.Restarts}, {sdk.KindPrecision, c.Precision.Plugin, c.Precision.Restarts}} {
		if k.restarts == 0 && (crowded(c, w) || constant(builtins, k.kind, k.plugin)) {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// constant reports whether a plugin is built in and answers from its options alone.
func constant(builtins []host.Builtin, kind sdk.Kind, plugin string) bool {
	i := slices.IndexFunc(builtins, func(b host.Builtin) bool { return b.Kind == kind && b.Name == plugin })
	return i >= 0 && builtins[i].Constant
}

// flightDir is where this rank writes its flight record: in the run directory.
func flightDir(agreed agreedDir) string {
	dir, err := agreed.Get(context.Background()) // it has its own deadline
	if err != nil || dir.Path == "" {
		return ""
	}
	return dir.Flights()
}

// hangTimeout lets a rank notice that its own plugin hangs before the other
// ranks' collectives time out, so that the plugin is blamed and not the rank.
func hangTimeout(collective time.Duration) time.Duration {
	return min(10*time.Second, max(time.Second, collective/2))
}

type joined = *Starting[*rank.Client]

// startJoin starts connecting to the other ranks.
func startJoin(lc fx.Lifecycle, o Options, w rank.World, key secret.Secret, cfg *config.Config, bus *event.Bus) joined {
	s := start(func() (*rank.Client, error) {
		ctx, cancel := context.WithTimeout(context.Background(), cfg.Backend.InitTimeout)
		defer cancel()
		return rank.Join(ctx, w, rank.JoinOptions{
			Secret: key, Ports: cfg.Launch.Ports(), Env: o.place.lookup,
			OnWait: func(p rank.Progress) { bus.Emit(&event.Warning{Source: "rendezvous", Message: p.String()}) },
			Log: func(format string, args ...any) {
				bus.Emit(&event.Warning{Source: "rendezvous", Message: fmt.Sprintf(format, args...)})
			},
		})
	})
	lc.Append(fx.Hook{OnStop: func(context.Context) error {
		<-s.done
		if s.err != nil {
			return nil
		}
		return s.value.Close()
	}})
	return s
}

func startBackend(lc fx.Lifecycle, h *host.Host, cfg *config.Config, m Machine, bus *event.Bus) *Starting[host.Collectives] {
	s := start(func() (host.Collectives, error) {
		b, err := h.PlaceBackend(context.Background(), Backend(cfg), cfg.Backend.Options, sdk.PlaceRequest{
			Device: m.Device, Overlap: true, Restarts: replacements(cfg), Getenv: os.Getenv,
		})
		if err == nil && b.Placement().Why != "" {
			bus.Emit(&event.BackendPlaced{Backend: b.Info().Name, InProcess: b.Placement().InProcess, PID: b.PID(), Reason: b.Placement().Why})
		}
		return started[host.Collectives](b, err)
	})
	lc.Append(fx.Hook{OnStop: closing(s, bus)})
	return s
}

// replacements is how often a backend may have to be replaced. In an elastic job every change
// of the ranks replaces it.
func replacements(cfg *config.Config) int {
	if cfg.Launch.IsElastic() {
		return max(1, cfg.Backend.Restarts)
	}
	return cfg.Backend.Restarts
}

func startPrecision(lc fx.Lifecycle, h *host.Host, cfg *config.Config, bus *event.Bus) *Starting[host.Scaler] {
	s := start(func() (host.Scaler, error) {
		p, err := h.StartPrecision(context.Background(), cfg.Precision.Plugin)
		if err != nil {
			return nil, err
		}
		p.Replace(host.Replacement{Restarts: cfg.Precision.Restarts, Report: reportReplaced(bus)})
		return p, nil
	})
	lc.Append(fx.Hook{OnStop: closing(s, bus)})
	return s
}

func startDataset(lc fx.Lifecycle, h *host.Host, cfg *config.Config, bus *event.Bus) *Starting[host.Batches] {
	s := start(func() (host.Batches, error) {
		d, err := h.StartDataset(context.Background(), cfg.Dataset.Plugin)
		if err != nil {
			return nil, err
		}
		d.Timeout, d.Validation = cfg.Dataset.Timeout, cfg.Dataset.Validation
		d.Replace(host.Replacement{Restarts: cfg.Dataset.Restarts, Report: reportReplaced(bus)})
		return d, nil
	})
	lc.Append(fx.Hook{OnStop: closing(s, bus)})
	return s
}

// reportReplaced makes an event of a plugin that was replaced.
func reportReplaced(bus *event.Bus) func(host.Replaced) {
	return func(r host.Replaced) {
		e := &event.PluginRestarted{Type: string(r.Kind), Name: r.Name, PID: r.PID, Restart: r.Restart, Cause: r.Cause.Error(), TookMS: event.Millis(r.Took)}
		var failed *host.PluginError
		if errors.As(r.Cause, &failed) {
			e.Operation, e.Cause = failed.Phase, failed.Cause.Error()
		}
		bus.Emit(e)
	}
}

// started keeps a nil pointer from becoming a non-nil interface.
func started[I any, T any](v T, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return any(v).(I), nil
}

// Backend is the backend that a configuration selects: "auto" is TCP, which supports
// every device and gives bit-identical results.
func Backend(cfg *config.Config) string {
	if cfg.Backend.Plugin == "auto" {
		return "tcp"
	}
	return cfg.Backend.Plugin
}

// openStore opens the checkpoints directory on rank 0, the only writer.
func openStore(lc fx.Lifecycle, o Options, w rank.World, cfg *config.Config, fs checkpoint.FS, dir RunDir, bus *event.Bus) (*checkpoint.Store, error) {
	if !leads(o, w) || o.EvalOnly {
		return nil, nil
	}
	s, err := openSaves(checkpoint.Open, cfg, fs, dir, bus)
	if s != nil {
		lc.Append(fx.Hook{OnStop: func(context.Context) error { return s.Close() }})
	}
	return s, err
}

// openSaves opens the checkpoints directory of a run that saves, and reports what is saved.
func openSaves(open func(checkpoint.FS, string, checkpoint.Config) (*checkpoint.Store, error), cfg *config.Config, fs checkpoint.FS, dir RunDir, bus *event.Bus) (*checkpoint.Store, error) {
	if cfg.Checkpoint.Every == "never" {
		return nil, nil
	}
	s, err := open(fs, dir.Checkpoints(), cfg.Checkpoint)
	if err != nil {
		return nil, err
	}
	told := false
	s.OnSaved(func(c checkpoint.Saved) {
		bus.Emit(&event.CheckpointSaved{Step: c.Step, Path: c.Path, Bytes: c.Bytes, TookMS: float64(c.Took.Microseconds()) / 1e3, Best: c.Best})
		if c.NonFinite != "" && !told { // the run ends soon, and one warning is enough
			told = true
			bus.Emit(&event.Warning{Source: "checkpoint", Message: fmt.Sprintf(
				"the checkpoint after step %d does not count as good: its weights are not finite, the first is %s; --resume auto continues from the newest finite one", c.Step, c.NonFinite)})
		}
	})
	return s, nil
}
