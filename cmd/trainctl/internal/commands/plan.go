package commands

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/report/forecast"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func planCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plan CONFIG",
		Short:   "Show ranks, shapes, memory and buckets of a run without starting it",
		Example: "  trainctl plan configs/mnist-ddp.toml --nproc-per-node 8 --json\n  trainctl plan configs/cifar-resnet18.toml --graph resnet18.svg",
	}
	openData := cmd.Flags().Bool("open-data", false, "let a data set plugin given by a path open its data, to find their shape")
	graph := cmd.Flags().String("graph", "", "also draw the model as an SVG in `FILE`, which is replaced")
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		o := p.Forecast(c)
		o.OpenData = *openData
		r, err := app.Forecast(cmd.Context(), o)
		if err != nil {
			return app.AtPlace(c, err)
		}
		if *graph != "" {
			if err := drawTo(*graph, r); err != nil {
				return err
			}
		}
		return show(r, r.Text)
	})
}

// drawTo writes the drawing of a model.
func drawTo(path string, r *forecast.Report) error {
	if dir := filepath.Dir(path); !cli.IsDir(checkpoint.OsFS(), dir) {
		return cli.Usagef("--graph: the folder %s does not exist", dir)
	}
	var b bytes.Buffer
	if err := r.SVG(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
