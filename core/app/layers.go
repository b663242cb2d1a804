package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// layerPlugins are the processes of a rank's layer plugins. It implements op.Plugins. A nil pointer is a run
// without any.
type layerPlugins struct {
	cfg *config.Config
	all []*host.Layers      // of the entries of [[layer_plugins]]; nil where no layer needs one
	use []*host.RemoteLayer // that were described
}

// openLayerPlugins starts the plugins that compute layers of the model. report may be nil.
func openLayerPlugins(ctx context.Context, h *host.Host, cfg *config.Config, report func(host.Replaced)) (*layerPlugins, error) {
	needed := make([]bool, len(cfg.LayerPlugins))
	any := false
	cfg.Model.PluginLayers(func(_ string, l *nn.LayerConfig) {
		if i, err := cfg.LayerPlugin(l.Plugin()); err == nil { // the configuration has been checked
			needed[i], any = true, true
		}
	})
	if !any {
		return nil, nil
	}
	p := &layerPlugins{cfg: cfg, all: make([]*host.Layers, len(needed))}
	for i := range needed {
		if !needed[i] {
			continue
		}
		c := &cfg.LayerPlugins[i]
		l, err := h.StartLayers(ctx, c.Plugin)
		if err != nil {
			return nil, errors.Join(err, p.Close(ctx))
		}
		l.Timeout = c.Timeout
		l.Replace(host.Replacement{Restarts: c.Restarts, Report: report})
		p.all[i] = l
	}
	return p, nil
}

// model is the table [model] with the plugins that compute its layers.
func (p *layerPlugins) model(c nn.Config) nn.Config {
	if p != nil {
		c.Plugins = p
	}
	return c
}

// Describe implements op.Plugins.
func (p *layerPlugins) Describe(plugin string, s *op.Site, in tensor.Shape) (op.Described, error) {
	i, err := p.cfg.LayerPlugin(plugin)
	if err != nil {
		return op.Described{}, err
	}
	checked, problems := sdk.CheckOptions("", p.all[i].Info().Options, s.Options)
	if err := problems.Err(); err != nil {
		return op.Described{}, err
	}
	r, err := p.all[i].Add(context.Background(), sdk.LayerRequest{Options: checked, Name: s.Path, Shape: in}, "model."+s.Key)
	if err != nil {
		if errors.Is(err, host.ErrDied) || errors.Is(err, host.ErrHung) {
			err = &op.PluginGone{Err: err}
		}
		return op.Described{}, err
	}
	p.use = append(p.use, r)
	return r.Described(), nil
}

// stepBytes is what a step of one micro-batch copies to the plugins and back.
func (p *layerPlugins) stepBytes(batch int, d tensor.DType) (n int64) {
	if p == nil {
		return 0
	}
	for _, r := range p.use {
		n += int64(r.StepBytes(batch, d))
	}
	return n
}

// each calls f for each plugin that runs.
func (p *layerPlugins) each(f func(c *host.LayerPluginConfig, l *host.Layers)) {
	if p == nil {
		return
	}
	for i, l := range p.all {
		if l != nil {
			f(&p.cfg.LayerPlugins[i], l)
		}
	}
}

// Close ends the plugins.
func (p *layerPlugins) Close(ctx context.Context) (err error) {
	p.each(func(_ *host.LayerPluginConfig, l *host.Layers) { err = errors.Join(err, l.Close(ctx)) })
	return err
}

// Overdue describes a call that takes long; "" if there is none.
func (p *layerPlugins) Overdue(after time.Duration) (text string) {
	p.each(func(_ *host.LayerPluginConfig, l *host.Layers) { text = cmp.Or(text, l.Overdue(after)) })
	return text
}

// startLayers starts the layer plugins of a rank.
func startLayers(lc fx.Lifecycle, h *host.Host, cfg *config.Config, bus *event.Bus) *Starting[*layerPlugins] {
	s := start(func() (*layerPlugins, error) {
		return openLayerPlugins(context.Background(), h, cfg, reportReplaced(bus))
	})
	lc.Append(fx.Hook{OnStop: closing(s, bus)})
	return s
}

// layerOptions checks the options of the layers that a plugin computes, and completes them.
func layerOptions(c *config.Config, t config.PluginTable, info *sdk.Info) error {
	var all usererr.List
	c.Model.PluginLayers(func(key string, l *nn.LayerConfig) {
		if i, err := c.LayerPlugin(l.Plugin()); err != nil || c.LayerPlugins[i].Plugin != t.Plugin {
			return
		}
		checked, problems := sdk.CheckOptions("model."+key+".options", info.Options, l.Options)
		if all = append(all, problems...); len(problems) == 0 && len(checked) > 0 {
			l.Options = checked
		}
	})
	return all.Err()
}
