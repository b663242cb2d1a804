package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/secret"
)

func secretCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Print a new secret for a job over several hosts",
		Long: `Print a new secret for a job over several hosts, whose processes authenticate each
other with it. Give all hosts the same secret, in ` + secret.Env + ` or in
the file named by launch.secret_file. trainctl keeps no copy.`,
		Example: `  export ` + secret.Env + `="$(trainctl secret)"
  (umask 077; trainctl secret > job.secret)`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), secret.New().Reveal())
			return err
		},
	}
}
