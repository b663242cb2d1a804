package main

import (
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
)

func planCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plan CONFIG",
		Short:   "Show ranks, shapes, memory and buckets of a run without starting it",
		Example: "  trainctl plan configs/mnist-ddp.toml --nproc-per-node 8 --json",
	}
	openData := cmd.Flags().Bool("open-data", false, "let a data set plugin given by a path open its data, to find their shape")
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		o := p.Forecast(c)
		o.OpenData = *openData
		r, err := app.Forecast(cmd.Context(), o)
		if err != nil {
			return app.AtPlace(c, err)
		}
		return show(r, r.Text)
	})
}
