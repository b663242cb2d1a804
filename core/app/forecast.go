package app

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/forecast"
	"github.com/trainctl/trainctl/core/host"
)

// Forecast says what a run of the configuration would do. It starts nothing.
func Forecast(ctx context.Context, c *config.Config, builtins []host.Builtin) (*forecast.Report, error) {
	return nil, errors.New("plan")
}
