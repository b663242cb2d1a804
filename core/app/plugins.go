package app

import (
	"context"
	"os"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/diag"
	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// CheckPlugins checks the options of plugins against what they publish.
// Built-in plugins answer within this process; one given by a path is started
// for a moment, if it has the sum that the file wants. A precision plugin that
// is built in is also asked for its policy, and such a backend where it would run,
// so that illegal combinations are found before anything runs.
func CheckPlugins(ctx context.Context, h *host.Host, builtins []host.Builtin) config.CheckPlugin {
	return func(c *config.Config, kind, plugin, sum string, given map[string]any) (map[string]any, diag.List, error) {
		if kind == string(sdk.KindBackend) && plugin == "auto" {
			plugin = "tcp"
		}
		info, err := h.WithChecksums(map[string]string{plugin: sum}).Describe(ctx, sdk.Kind(kind), plugin)
		if err != nil {
			return nil, nil, err
		}
		opts, problems := sdk.CheckOptions("", info.Options, given)
		if len(problems) == 0 && kind == string(sdk.KindPrecision) {
			problems = checkPolicy(ctx, builtins, plugin, opts)
		}
		if len(problems) == 0 && kind == string(sdk.KindBackend) {
			problems = h.CheckPlace(plugin, sdk.PlaceRequest{Options: opts, Overlap: true, Restarts: c.Backend.Restarts, Getenv: os.Getenv})
		}
		return opts, problems, nil
	}
}

func checkPolicy(ctx context.Context, builtins []host.Builtin, plugin string, opts sdk.Options) (l diag.List) {
	for _, b := range builtins {
		if b.Kind != sdk.KindPrecision || b.Name != plugin {
			continue
		}
		p := b.Plugin.Precision()
		defer p.Close()
		if _, err := p.Policy(ctx, opts); err != nil {
			l.Addf("", "", "%v", err)
		}
	}
	return l
}
