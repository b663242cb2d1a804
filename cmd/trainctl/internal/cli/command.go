package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes a command that only has subcommands.
func Group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		msg := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			msg += ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return UsageOf(cmd, "%s", msg)
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return Reported(Usagef("no command given"))
	}
	return cmd
}

// Exactly requires one argument for every name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			missing, verb := names[len(args):], "is"
			if len(missing) > 1 {
				verb = "are"
			}
			return UsageOf(cmd, "%s %s missing", strings.Join(missing, " and "), verb)
		case len(args) > len(names):
			return UsageOf(cmd, "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// AtLeastOne requires one argument or more.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return UsageOf(cmd, "%s is missing", name)
		}
		return nil
	}
}
