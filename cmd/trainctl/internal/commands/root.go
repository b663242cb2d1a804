package commands

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/bench"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/ckpt"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/importing"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/inference"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/plugins"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/report"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/runs"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/submit"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/sweep"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/ui"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/watch"
)

// Execute runs one command line and returns the exit code.
func Execute(ctx context.Context, p *cli.Program, args []string) int {
	root := Root(p)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		cli.Report(cmd, err)
	}
	return cli.ExitCode(err)
}

// Root is the command trainctl with all others below it.
func Root(p *cli.Program) *cobra.Command {
	root := cli.Group(&cobra.Command{
		Use:   "trainctl",
		Short: "Train models on several ranks from one TOML file",
		Long: `trainctl trains a model on several ranks. One TOML file describes the run:
model, data, batch, communication. Flags and --set override single keys.`,
		Example: "  trainctl run configs/mnist-ddp.toml --nproc-per-node 2",
	})
	dir := root.PersistentFlags().StringP("chdir", "C", "", "change to `DIR` first")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if *dir == "" {
			return nil
		}
		if err := os.Chdir(*dir); err != nil {
			return cli.Usagef("--chdir: %v", err)
		}
		return nil
	}
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.UsageOf(cmd, "%v", err)
	})
	root.AddCommand(
		runCommand(p), workerCommand(p), sweep.Command(p), planCommand(p), evalCommand(p), inference.Generate(p), inference.Predict(p), configCommand(p), dataCommand(p),
		ckpt.Command(p), importing.Command(), plugins.Command(p), bench.Command(p), submit.Command(p), doctorCommand(p), envCommand(), logsCommand(), runs.Command(), watch.Command(), report.Command(), ui.Command(), secretCommand(), versionCommand(),
	)
	return root
}
