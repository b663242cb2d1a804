package runs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func removeCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Delete runs with their checkpoints and logs",
		Long: `Delete runs with their checkpoints and logs, after a question on the terminal, or without one
with --yes. A run that is running is refused. If it was interrupted, the same command finishes.`,
		Example: "  trainctl runs rm mnist-ddp/1 mnist-ddp/2\n  trainctl runs rm latest --yes",
		Args:    cli.AtLeastOne("RUN"),
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := finish(cmd.OutOrStdout(), *base, args)
		if err != nil || len(args) == 0 {
			return err
		}
		list, err := readAll(*base, args, rundir.ReadBrief)
		if err != nil {
			return err
		}
		var ids []string
		for _, r := range list {
			if r.Status(time.Now()) == rundir.Running {
				return cli.Usagef("run %s is running; fix: stop it first, or wait until it ends", r.ID)
			}
			ids = append(ids, r.ID)
		}
		if !*yes {
			if ok, err := agreed(cmd.InOrStdin(), cmd.ErrOrStderr(), ids); err != nil || !ok {
				return err
			}
		}
		for _, r := range list {
			if err := r.Dir.Remove(); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "removed "+r.Dir.Path); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// finish deletes what is left of runs whose removal was interrupted, and returns the arguments that name
// other runs.
func finish(w io.Writer, base string, args []string) (rest []string, err error) {
	for _, arg := range args {
		paths, err := event.FinishRemoval(checkpoint.OsFS(), base, arg)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if _, err := fmt.Fprintln(w, "removed "+p); err != nil {
				return nil, err
			}
		}
		if _, err := cli.FindRun(base, arg); err == nil || len(paths) == 0 {
			rest = append(rest, arg)
		}
	}
	return rest, nil
}

// agreed asks on a terminal whether to delete runs. Only y and yes agree.
func agreed(in io.Reader, out io.Writer, ids []string) (bool, error) {
	if f, ok := in.(*os.File); !ok || !cli.Interactive(f) {
		return false, cli.Usagef("runs are deleted only after a question on a terminal; fix: add --yes to delete %s", strings.Join(ids, ", "))
	}
	if _, err := fmt.Fprintf(out, "delete %s with checkpoints and logs? [y/N] ", strings.Join(ids, ", ")); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}
