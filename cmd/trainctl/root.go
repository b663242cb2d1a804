package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/lossy"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train"
)

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, s *services, args []string, io stdio) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		report(cmd, err)
	}
	return exitCode(err)
}

func newRoot(s *services) *cobra.Command {
	root := group(&cobra.Command{
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
			return usagef("--chdir: %v", err)
		}
		return nil
	}
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err.Error(), cmd.CommandPath()}
	})
	root.AddCommand(
		runCommand(s), workerCommand(s), planCommand(s), evalCommand(s), configCommand(s), dataCommand(s),
		ckptCommand(), pluginsCommand(s), benchCommand(s), doctorCommand(s), envCommand(), logsCommand(), secretCommand(), versionCommand(),
	)
	return root
}

// group makes a command that only has subcommands.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		msg := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			msg += ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return &usageError{msg, cmd.CommandPath()}
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return reported{usagef("no command given")}
	}
	return cmd
}

// exactly requires one argument for every name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return &usageError{fmt.Sprintf("%s is missing", strings.Join(names[len(args):], " ")), cmd.CommandPath()}
		case len(args) > len(names):
			return &usageError{fmt.Sprintf("unexpected argument %q", args[len(names)]), cmd.CommandPath()}
		}
		return nil
	}
}

// report writes an error to the terminal, if that still reads it.
func report(cmd *cobra.Command, err error) {
	w := lossy.NewWriter(cmd.ErrOrStderr(), lossy.Options{})
	defer w.Close()
	var done reported
	var asked *train.Preempted
	var early app.Interrupted
	var bad *config.Error
	var usage *usageError
	switch {
	case errors.As(err, &done), errors.As(err, new(app.Told)):
	case errors.As(err, &asked), errors.As(err, &early): // not an error: the user asked for it
		fmt.Fprintln(w, err)
	case errors.As(err, &bad):
		_ = config.Render(w, bad.Diagnostics, colorful(w))
	case errors.As(err, &usage):
		fmt.Fprintf(w, "%s: %s\n", errorWord(w), usage.msg)
		if usage.hint != "" {
			fmt.Fprintf(w, "see: %s --help\n", usage.hint)
		}
	default:
		fmt.Fprintf(w, "%s: %v\n", errorWord(w), err)
	}
}
