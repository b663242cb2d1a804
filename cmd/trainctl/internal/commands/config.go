package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cuda"
)

func configCommand(p *cli.Program) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "config",
		Short: "Check and show configurations",
	}, configCheckCommand(p), configShowCommand(p), configSchemaCommand(p))
}

func configCheckCommand(p *cli.Program) *cobra.Command {
	var flags cli.ConfigFlags
	cmd := &cobra.Command{
		Use:     "check CONFIG",
		Short:   "Report every problem of a file at once",
		Example: "  trainctl config check train.toml --json",
		Args:    cli.Exactly("CONFIG"),
	}
	flags.Register(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the report as one JSON object on standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.Load(cmd, &flags, args[0])
		if err == nil {
			err = app.CheckModel(cmd.Context(), p.Forecast(c))
		}
		list := config.Diagnostics(err)
		if err != nil && list == nil {
			return err
		}
		if err == nil {
			checkDevice(cmd.Context(), c)
			list = c.Warnings
		}
		if *asJSON {
			if werr := config.RenderJSON(cmd.OutOrStdout(), list); werr != nil {
				return werr
			}
			if err != nil {
				return cli.Reported(err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		cli.Warn(cmd, c)
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", c.Path)
		return err
	}
	return cmd
}

// checkDevice warns if this machine lacks the device: the file may be for another one.
func checkDevice(ctx context.Context, c *config.Config) {
	var missing *cuda.MissingError
	if _, err := app.Survey(ctx, c.Run.Device); errors.As(err, &missing) {
		c.Warn("run.device", missing.Fix, missing.What)
	}
}

func configShowCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show CONFIG",
		Short:   "Print every key with its value and the value's source",
		Example: "  trainctl config show train.toml --set optimizer.lr=0.1",
	}
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(_ *cobra.Command, c *config.Config) error {
		settings := struct {
			FormatVersion string           `json:"format_version"`
			Config        string           `json:"config"`
			Settings      []config.Setting `json:"settings"`
		}{"1.0", c.Path, c.Settings()}
		return show(settings, func(w io.Writer) error {
			_, err := w.Write(c.Show())
			return err
		})
	})
}

func configSchemaCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print a JSON Schema of the configuration file, for editors",
		Example: "  trainctl config schema > trainctl.schema.json",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WriteJSON(cmd.OutOrStdout(), config.Schema(p.Host.List()...))
		},
	}
}
