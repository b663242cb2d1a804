package cli

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// Program is the running program: the plugins that it serves itself, and their host.
type Program struct {
	Builtins []host.Builtin
	Host     *host.Host // starts plugins
	Started  time.Time
}

// NewProgram returns the program that was started at a time and serves the given plugins.
func NewProgram(started time.Time, builtins []host.Builtin) *Program {
	sandboxed := func(kind sdk.Kind) *sandbox.Rules { return host.DefaultPlugins().Rules(kind, false, false, nil) }
	return &Program{Builtins: builtins, Host: host.New(host.Options{Builtins: builtins, Sandbox: sandboxed}), Started: started}
}

// Options adds to the options of a command what the program knows about itself.
func (p *Program) Options(o app.Options) app.Options {
	o.Builtins, o.Build, o.Started = p.Builtins, Version(), p.Started
	return o
}

// Forecast returns the options that plan a configuration without running it.
func (p *Program) Forecast(c *config.Config) app.ForecastOptions {
	return app.ForecastOptions{Config: c, Builtins: p.Builtins, Host: p.Host}
}

// checkPlugin returns the check of plugin options, and a function that releases it.
func (p *Program) checkPlugin() (check config.CheckPlugin, done func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	return app.CheckPlugins(ctx, p.Host, p.Builtins), cancel
}

// Version returns the program's version.
func Version() string { return app.Version() }
