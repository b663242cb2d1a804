package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
)

// pluginRecord says which plugins a rank uses. The checksums of their programs take tens of milliseconds of a processor
// that computes training steps too, so that they are spread over about a second, unless somebody waits for them.
type pluginRecord struct {
	plugins func() []event.PluginStarted // recorded by the first call
	waited  func()
}

// newPluginRecord returns a record of what list returns. list calls pause in between.
func newPluginRecord(list func(pause func()) []event.PluginStarted) *pluginRecord {
	waits := make(chan struct{})
	pause := func() {
		select {
		case <-waits:
		case <-time.After(5 * time.Millisecond): // after a quarter of one
		}
	}
	return &pluginRecord{sync.OnceValue(func() []event.PluginStarted { return list(pause) }), sync.OnceFunc(func() { close(waits) })}
}

// inBackground records the plugins slowly.
func (p *pluginRecord) inBackground() { go p.plugins() }

// wait returns the plugins, and hurries a record in the background.
func (p *pluginRecord) wait() []event.PluginStarted {
	p.waited()
	return p.plugins()
}

// pluginRecord is that of the rank.
func (r *runner) pluginRecord(d train.Deps) *pluginRecord {
	return newPluginRecord(func(pause func()) []event.PluginStarted { return r.record(d, pause) })
}

// record emits an event for each plugin of the rank. It computes the checksum of an
// executable that several plugins share once.
func (r *runner) record(d train.Deps, pause func()) []event.PluginStarted {
	cfg := r.p.Config
	sums := map[string]event.PluginStarted{} // by path
	var all []event.PluginStarted
	type used struct {
		kind sdk.Kind
		name string // in the TOML
		info sdk.Info
	}
	plugins := []used{
		{sdk.KindBackend, Backend(cfg), d.Backend.Info()},
		{sdk.KindPrecision, cfg.Precision.Plugin, d.Precision.Info()},
		{sdk.KindDataset, cfg.Dataset.Plugin, d.Dataset.Info()},
	}
	if layers, err := r.p.Layers.Get(context.Background()); err == nil {
		layers.each(func(c *host.LayerPluginConfig, l *host.Layers) {
			plugins = append(plugins, used{sdk.KindLayer, c.Plugin, l.Info()})
		})
	}
	for _, p := range plugins {
		if r.p.Host.Attached(p.kind, p.name) != "" {
			continue // which file that process runs is not known
		}
		path, err := r.p.Host.Executable(p.kind, p.name)
		e, known := sums[path]
		if e.Path = path; err == nil && !known {
			e.SHA256, err = r.p.Host.Sum(p.kind, p.name, pause)
		}
		sums[path] = e
		if err != nil {
			r.p.Bus.Emit(&event.Warning{Source: "plugins", Message: fmt.Sprintf("the checksum of %s plugin %s is not recorded: %v", p.kind, p.name, err)})
		}
		e.Type, e.Name, e.Version = string(p.kind), p.info.Name, p.info.Version
		r.p.Bus.Emit(&e)
		all = append(all, e)
	}
	return all
}
