package app

import (
	"context"
	"errors"
	"os"
	"runtime"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/outline"
)

// CheckPlugins checks the options of plugins against those they declare, and what a run
// needs from its backend against what the backend offers. Built-in plugins answer
// within this process; one given by a path is started briefly, if its checksum matches
// the configuration. It also gets the policy of a precision plugin and the placement of
// a built-in backend, so that invalid combinations are found before anything runs.
func CheckPlugins(ctx context.Context, h *host.Host, builtins []host.Builtin) config.CheckPlugin {
	return func(c *config.Config, t config.PluginTable) (map[string]any, usererr.List, error) {
		key := t.Key()
		if key.Kind == sdk.KindObserver && !hasObservers() {
			return *t.Options, nil, nil
		}
		if key.Kind == sdk.KindBackend {
			key.Plugin = Backend(c)
		}
		terms := c.Terms()
		terms[t.Key()] = c.TermsOf(t) // another table may name the same observer
		k := pluginCheck{host: h.WithTerms(terms), builtins: builtins, config: c}
		if err := usererr.Under(t.Table, k.host.CheckTerms(key).Err()); err != nil {
			return nil, nil, err
		}
		info, err := k.host.Describe(ctx, key.Kind, key.Plugin)
		if err != nil {
			return nil, nil, err
		}
		if key.Kind == sdk.KindLayer {
			return nil, nil, layerOptions(c, t, &info)
		}
		opts, problems := sdk.CheckOptions("", info.Options, *t.Options)
		switch {
		case len(problems) > 0:
		case key.Kind == sdk.KindPrecision:
			_, err = k.policy(ctx, key.Plugin, opts)
		case key.Kind == sdk.KindBackend:
			problems = h.CheckPlace(key.Plugin, sdk.PlaceRequest{Options: opts, Overlap: true, Restarts: c.Backend.Restarts, Getenv: os.Getenv})
			err = k.demands(ctx, info)
		}
		var bad *host.StartError
		if err != nil && key.Kind == sdk.KindPrecision && !errors.As(err, &bad) {
			problems.Addf("", "", "%v", err)
			err = nil
		}
		return opts, problems, err
	}
}

// pluginCheck checks one plugin of a configuration.
type pluginCheck struct {
	host     *host.Host
	builtins []host.Builtin
	config   *config.Config
}

// policy gets the policy of a precision plugin.
func (k pluginCheck) policy(ctx context.Context, plugin string, opts sdk.Options) (policy sdk.Policy, err error) {
	p, err := k.precision(ctx, plugin)
	if err != nil {
		return policy, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	return p.Policy(ctx, opts)
}

// precision starts a precision plugin, within this process if it is built in.
func (k pluginCheck) precision(ctx context.Context, plugin string) (*host.Precision, error) {
	for _, b := range k.builtins {
		if b.Kind == sdk.KindPrecision && b.Name == plugin {
			return host.InProcessPrecision(b.Plugin.Precision()), nil
		}
	}
	return k.host.StartPrecision(ctx, plugin)
}

// demands compares what the configuration needs from a backend with what the backend
// offers. Errors of the precision plugin are reported elsewhere, with its own key.
func (k pluginCheck) demands(ctx context.Context, backend sdk.Info) error {
	c := k.config
	world := c.Launch.Nproc(0, runtime.NumCPU()) * max(1, c.Launch.Nnodes.Int())
	table := c.PluginTables()[1]
	p, err := k.precision(ctx, table.Plugin)
	if err != nil {
		return nil
	}
	defer func() { _ = p.Close(ctx) }()
	opts, problems := sdk.CheckOptions("", p.Info().Options, *table.Options)
	if len(problems) > 0 {
		return nil
	}
	policy, err := p.Policy(ctx, opts)
	if err != nil {
		return nil
	}
	return outline.CheckBackend(backend, world, device(c.Run.Device, backend.Devices), c.DDP.Calls(outline.GradientTypes(c.Run.DType, &policy)))
}

// device is the device that ranks compute on, as far as the configuration determines
// it. "auto" is resolved on the machine that runs, to a device the backend supports.
func device(configured string, served []string) string {
	if configured == "auto" && len(served) > 0 {
		return served[0]
	}
	return configured
}
