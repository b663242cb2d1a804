package trainctl

import (
	"context"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/forecast"
	"github.com/trainctl/trainctl/internal/builtins"
)

// Forecast is what a run would do. Its method Text writes what the command trainctl plan shows.
type Forecast = forecast.Report

// Plan returns what Run would do with the same arguments, without starting anything: layers and their shapes, memory,
// buckets. Mistakes in the configuration itself are errors as for Run, and so are shapes that do not fit together. Whether the data
// is there is not checked.
func Plan(ctx context.Context, cfg Config, options ...Option) (*Forecast, error) {
	s := newSettings(options)
	plugins := append(s.values, builtins.List()...)
	h := host.New(host.Options{Builtins: plugins})
	c, err := cfg.load(s.set, app.CheckPlugins(ctx, h, plugins))
	if err != nil {
		return nil, err
	}
	f, err := app.Forecast(ctx, app.ForecastOptions{Config: c, Builtins: plugins, Host: h})
	return f, app.AtPlace(c, err)
}
