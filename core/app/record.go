package app

import (
	"context"
	"fmt"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
)

// record emits an event for each plugin of the rank. It computes the checksum of an
// executable that several plugins share once.
func (r *runner) record(d train.Deps) []event.PluginStarted {
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
			e.SHA256, err = r.p.Host.Sum(p.kind, p.name)
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
