package app

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"time"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/base/lossy"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/output"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// RunDir is the run directory; the zero value, on other ranks than 0, has none.
type RunDir struct{ event.RunDir }

// openEvents creates the worker's bus. Rank 0 writes the run directory's files; every
// rank reports to its launcher, and without a launcher rank 0 draws the progress
// itself.
func openEvents(lc fx.Lifecycle, o Options, w rank.World, cfg *config.Config, m Machine, fs checkpoint.FS) (*event.Bus, RunDir, error) {
	bus := event.NewBus(w.Rank)
	var dir RunDir
	if f := o.place.events; f != nil {
		out := outlet(lc, f, event.Dropped(w.Rank))
		bus.Add(event.NewJSONLines(out, nil))
	} else if !o.EvalOnly {
		for _, sink := range o.Sinks {
			bus.Add(ofRank{sink, w.Rank})
		}
	}
	if leads(o, w) && !o.EvalOnly {
		if err := openRunFiles(bus, &dir, o.place, cfg, fs); err != nil {
			return nil, dir, err
		}
	}
	if w.Rank != 0 && w.LocalRank == 0 && !o.EvalOnly && cfg.Metrics.Prometheus != "" {
		serveReadiness(bus, cfg.Metrics.Prometheus)
	}
	if o.external != nil {
		o.external.watch(bus, dir.RunDir)
	}
	lc.Append(fx.Hook{OnStop: func(context.Context) error { return bus.Close() }})
	if leads(o, w) && !o.EvalOnly {
		bus.Emit(&event.RunStarted{
			Name: cfg.Run.Name, Version: o.Build, RunDir: dir.Path, Continues: o.continues(fs), Config: cfg.Path, WorldSize: w.Size, Device: m.Device, DeviceReason: m.Why,
			Backend: Backend(cfg), Precision: cfg.Precision.Plugin, Epochs: cfg.Train.Epochs, Restart: w.RestartCount,
		})
	}
	hostname, _ := os.Hostname()
	bus.Emit(&event.RankStarted{Host: hostname, PID: os.Getpid(), LocalRank: w.LocalRank, GPU: m.gpuText(w), LauncherPID: o.place.launcherPID()})
	return bus, dir, nil
}

// leads reports whether a rank writes, from its start, what rank 0 writes. One that joins an
// elastic job in place of a rank that was lost does not, whatever its number was.
func leads(o Options, w rank.World) bool { return w.Rank == 0 && !o.place.joins }

// serveReadiness lets a node without rank 0 report, too, whether it trains. Where it shares its
// network with rank 0 the address is taken, and rank 0 answers.
func serveReadiness(bus *event.Bus, addr string) {
	if s, err := event.NewPrometheus(addr); err == nil {
		bus.Add(s)
	}
}

// ofRank leaves out events that rank 0 reports for all.
type ofRank struct {
	event.Sink
	rank int
}

func (s ofRank) Emit(r event.Record) {
	if s.rank == 0 || ofItsRank(r.Event) {
		s.Sink.Emit(r)
	}
}

// ofItsRank reports whether an event is about the rank that emits it, so that rank 0 does
// not report it for all.
func ofItsRank(e event.Event) bool {
	switch e.(type) {
	case *event.PluginLog, *event.Warning, *event.PluginRestarted:
		return true
	}
	return false
}

// outlet is an output that never blocks a step: a stopped launcher reads no events,
// and a terminal may be blocked. It is closed after the bus.
func outlet(lc fx.Lifecycle, f *os.File, notice func(int) []byte) *lossy.Writer {
	w := lossy.NewWriter(f, lossy.Options{Limit: outletBytes, Notice: notice, NoticeEvery: time.Minute, Patience: 5 * time.Second})
	lc.Append(fx.Hook{OnStop: func(context.Context) error {
		_ = w.Close() // a reader that does not read loses the rest
		return nil
	}})
	return w
}

// outletBytes holds the events of about 15,000 steps.
const outletBytes = 4 << 20

// openRunFiles opens the run directory, or creates it under another launcher than
// ours, and adds the sinks that write there.
func openRunFiles(bus *event.Bus, dir *RunDir, p place, cfg *config.Config, fs checkpoint.FS) (err error) {
	if p.launched {
		dir.RunDir, err = event.OpenRunDir(fs, p.runDir)
	} else {
		if dir.RunDir, err = event.CreateRunDir(fs, cfg.Run.Dir, cfg.Run.Name); err == nil {
			err = writeConfig(fs, dir.RunDir, cfg)
		}
	}
	if err != nil {
		return err
	}
	warn := func(err error) { bus.Emit(&event.Warning{Source: "events", Message: err.Error()}) }
	if cfg.Metrics.JSONL {
		s, err := event.OpenJSONLines(fs, dir.Events(), warn)
		if err != nil {
			return err
		}
		bus.AddFile(s)
	}
	if cfg.Metrics.TensorBoard {
		s, err := event.NewTensorBoard(fs, dir.TensorBoard(), warn)
		if err != nil {
			return err
		}
		bus.AddFile(s)
	}
	if cfg.Metrics.Prometheus != "" {
		s, err := event.NewPrometheus(cfg.Metrics.Prometheus)
		if err != nil {
			return err
		}
		bus.AddFile(s)
	}
	return nil
}

// logToEvents turns plugins' log records into events.
func logToEvents(bus *event.Bus) slog.Handler { return &eventHandler{bus: bus} }

type eventHandler struct {
	bus    *event.Bus
	plugin string
}

func (h *eventHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= output.LevelStack }

func (h *eventHandler) Handle(_ context.Context, r slog.Record) error {
	e := event.PluginLog{Plugin: h.plugin, Level: levelName(r.Level), Message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "plugin":
			e.Plugin = a.Value.String()
		case "done":
			e.Done = number(a.Value)
		case "total":
			e.Total = number(a.Value)
		default:
			e.Message += " " + a.Key + "=" + a.Value.String()
		}
		return true
	})
	h.bus.Emit(&e)
	return nil
}

func (h *eventHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	for _, a := range attrs {
		if a.Key == "plugin" {
			n.plugin = a.Value.String()
		}
	}
	return &n
}

func (h *eventHandler) WithGroup(string) slog.Handler { return h }

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

func number(v slog.Value) int64 {
	switch v.Kind() {
	case slog.KindInt64:
		return v.Int64()
	case slog.KindUint64:
		return int64(v.Uint64())
	case slog.KindFloat64:
		return int64(v.Float64())
	}
	n, _ := strconv.ParseInt(v.String(), 10, 64)
	return n
}
