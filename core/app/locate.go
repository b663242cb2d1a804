package app

import (
	"fmt"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// LocateData asks a built-in data set whether its data is on this machine, before
// ranks start that would each report that it is not. In a job on several hosts every
// rank checks for itself, so that all of them end. The error is a *host.DataError.
func LocateData(c *config.Config, builtins []host.Builtin) error {
	if c.Launch.Nnodes.Int() > 1 {
		return nil
	}
	for _, b := range builtins {
		if b.Kind != sdk.KindDataset || b.Name != c.Dataset.Plugin {
			continue
		}
		d, ok := b.Plugin.Dataset().(sdk.DatasetLocator)
		info, err := b.Plugin.Info(b.Kind)
		if !ok || err != nil {
			return err
		}
		opts, problems := sdk.CheckOptions("dataset.options", info.Options, c.Dataset.Options)
		if len(problems) > 0 {
			return problems.Err()
		}
		if err := d.Locate(opts); err != nil {
			return &host.DataError{Err: fmt.Errorf("dataset plugin %q: %w", b.Name, err)}
		}
	}
	return nil
}
