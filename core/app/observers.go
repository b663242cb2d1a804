package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/observer"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Observers run beside the launcher, which outlives its ranks: they see restarts and failures
// of ranks, and take nothing from a rank's process. Only if another launcher started the ranks
// do they run beside rank 0.

// hasObservers is false in ranks that run none: all that our launcher started, and those of other
// launchers above 0.
func hasObservers() bool {
	_, launched := os.LookupEnv(envRunDir)
	w, err := World()
	return !launched && (err != nil || w.Rank == 0)
}

// newObservers returns the sink for the observers of a configuration, and adds it to a bus. place
// returns where the run's files and the plugins' sockets are, once the run has begun.
func newObservers(o Options, bus *event.Bus, place func() (dir event.RunDir, sockets string)) *observer.Sink {
	var all []observer.Plugin
	for i, c := range o.Config.Observers {
		all = append(all, observer.Plugin{Name: c.Plugin, CloseTimeout: c.CloseTimeout, Start: func(ctx context.Context) (observer.Instance, error) {
			dir, sockets := place()
			return startObserver(ctx, o, i, bus, dir, sockets)
		}})
	}
	s := observer.New(all, func(plugin, text string) { bus.Emit(&event.Warning{Source: plugin, Message: text}) })
	if s != nil {
		bus.Add(s)
	}
	return s
}

// startObserver starts an observer of the configuration and opens it for a run.
func startObserver(ctx context.Context, o Options, i int, bus *event.Bus, dir event.RunDir, sockets string) (observer.Instance, error) {
	c, table := &o.Config.Observers[i], o.Config.ObserverTable(i)
	h := host.New(host.Options{
		Builtins: o.Builtins, Exe: o.Exe, SocketDir: sockets, Log: slog.New(logToEvents(bus)), StopTimeout: c.CloseTimeout,
		Terms: map[host.Key]host.Terms{table.Key(): o.Config.TermsOf(table)}, PluginEnv: map[string][]string{c.Plugin: c.Env},
		SetEnv: []string{"GOMAXPROCS=1"}, // the cores are for the ranks
		Start:  launch.StartChild,
	})
	p, err := h.StartObserver(ctx, c.Plugin)
	if err != nil {
		return nil, err
	}
	p.Timeout = c.Timeout
	p.Replace(host.Replacement{Restarts: c.Restarts, Report: reportReplaced(bus)})
	options, problems := sdk.CheckOptions(table.Table+".options", p.Info().Options, c.Options)
	if err = problems.Err(); err == nil {
		err = p.Open(ctx, sdk.ObserverRequest{Options: options, Name: o.Config.Run.Name, Dir: absolute(dir.Path), Config: settingsOf(o.Config)})
	}
	if err != nil {
		_ = p.Close(ctx) // what it says would be the same again
		return nil, err
	}
	return p, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// settingsOf returns every key of a configuration with its value as JSON. What JSON cannot
// express, such as infinity, is a string in TOML's syntax.
func settingsOf(c *config.Config) map[string]any {
	out := map[string]any{}
	for _, s := range c.Settings() {
		out[s.Key] = s.Value
		if json.Valid([]byte(s.Value)) {
			out[s.Key] = json.RawMessage(s.Value)
		}
	}
	return out
}

// endObservers delivers the rest of the events and the summary to a run's observers, ends them, and
// tells what they missed: with tell, and in events.jsonl.
func endObservers(s *observer.Sink, fsys checkpoint.FS, dir event.RunDir, jsonl bool, tell func(*event.Warning)) {
	summary, err := afero.ReadFile(fsys, dir.Summary())
	if err != nil {
		summary = nil // there is none
	}
	var missed []*event.Warning
	for _, m := range s.End(summary) {
		w := &event.Warning{Source: m.Plugin, Message: m.String()}
		tell(w)
		missed = append(missed, w)
	}
	if len(missed) == 0 || !jsonl || dir.Path == "" {
		return
	}
	file, err := event.OpenJSONLines(fsys, dir.Events(), nil)
	if err != nil {
		return // the caller has told it
	}
	bus := event.NewBus(event.Launcher, file)
	for _, w := range missed {
		bus.Emit(w)
	}
	_ = bus.Close()
}
