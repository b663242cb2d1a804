package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/internal/builtins"
)

// Command returns "trainctl report".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Write a web page about one run, or several compared",
		Long: `Write one HTML file about a run: its outcome and history, curves to zoom into, where the
time goes, ranks, evaluations, configuration and plugins. Of several runs, the curves
are overlaid and tables show what differs. The file needs no network and no other file.
RUN is a run's directory, its name (the newest run of that name), name and number
(mnist-ddp/3), or latest. The run may still be running, or continue an earlier one.`,
		Example: `  trainctl report latest
  trainctl report mnist-ddp/1 mnist-ddp/2 -o compared.html`,
		Args: cli.AtLeastOne("RUN"),
	}
	base := cmd.Flags().String("run-dir", cli.DefaultRuns, "look for runs in `DIR`")
	out := cmd.Flags().StringP("output", "o", "report.html", "write to `FILE`, which is replaced; - is standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var runs []page.Input
		for _, arg := range args {
			dir, err := cli.FindRun(*base, arg)
			if err != nil {
				return err
			}
			in, err := page.Read(checkpoint.OsFS(), dir, len(args))
			if err != nil {
				return err
			}
			runs = append(runs, in)
		}
		var b bytes.Buffer
		if err := page.Write(&b, runs, page.Options{Version: cli.Version(), Now: time.Now(), Plugins: builtins.Infos()}); err != nil {
			return err
		}
		if *out == "-" {
			_, err := cmd.OutOrStdout().Write(b.Bytes())
			return err
		}
		if dir := filepath.Dir(*out); !cli.IsDir(checkpoint.OsFS(), dir) {
			return cli.Usagef("--output: the folder %s does not exist", dir)
		}
		if err := os.WriteFile(*out, b.Bytes(), 0o644); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), *out)
		return err
	}
	return cmd
}
