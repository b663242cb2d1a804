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
	"github.com/trainctl/trainctl/core/train"
)

// CheckPlugins checks the options of plugins against what they publish, and what
// a run would ask of its backend against what that publishes. Built-in plugins
// answer within this process; one given by a path is started for a moment, if it
// has the sum that the file wants. A precision plugin is also asked for its policy,
// and a built-in backend where it would run, so that illegal combinations are
// found before anything runs.
func CheckPlugins(ctx context.Context, h *host.Host, builtins []host.Builtin) config.CheckPlugin {
	return func(c *config.Config, kind, plugin, sum string, given map[string]any) (map[string]any, usererr.List, error) {
		if kind == string(sdk.KindBackend) {
			plugin = Backend(c)
		}
		k := pluginCheck{host: h.WithChecksums(map[string]string{plugin: sum}).WithSandboxes(c.Sandboxes()), builtins: builtins, config: c}
		info, err := k.host.Describe(ctx, sdk.Kind(kind), plugin)
		if err != nil {
			return nil, nil, err
		}
		opts, problems := sdk.CheckOptions("", info.Options, given)
		switch {
		case len(problems) > 0:
		case kind == string(sdk.KindPrecision):
			_, err = k.policy(ctx, plugin, opts)
		case kind == string(sdk.KindBackend):
			problems = h.CheckPlace(plugin, sdk.PlaceRequest{Options: opts, Overlap: true, Restarts: c.Backend.Restarts, Getenv: os.Getenv})
			k.host = h.WithChecksums(c.Checksums()) // the policy is another plugin's
			err = k.demands(ctx, info)
		}
		var bad *host.StartError
		if err != nil && kind == string(sdk.KindPrecision) && !errors.As(err, &bad) {
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

// policy asks a precision plugin.
func (k pluginCheck) policy(ctx context.Context, plugin string, opts sdk.Options) (policy sdk.Policy, err error) {
	p, err := k.precision(ctx, plugin)
	if err != nil {
		return policy, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	return p.Policy(ctx, opts)
}

// precision is a plugin to ask, within this process where it is built in.
func (k pluginCheck) precision(ctx context.Context, plugin string) (*host.Precision, error) {
	for _, b := range k.builtins {
		if b.Kind == sdk.KindPrecision && b.Name == plugin {
			return host.InProcessPrecision(b.Plugin.Precision()), nil
		}
	}
	return k.host.StartPrecision(ctx, plugin)
}

// demands compares what the configuration asks of a backend with what it
// publishes. Where the precision plugin cannot be asked, what is wrong with that is
// reported in its own place.
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
	return train.CheckBackend(backend, world, device(c.Run.Device, backend.Devices), c.DDP.Calls(train.GradientTypes(c.Run.DType, &policy)))
}

// device is what ranks compute on, as far as a configuration says. What "auto"
// means is another machine's business: it is none that the backend does not serve.
func device(configured string, served []string) string {
	if configured == "auto" && len(served) > 0 {
		return served[0]
	}
	return configured
}
