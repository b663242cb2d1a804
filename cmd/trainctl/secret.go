package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/job/secret"
)

func secretCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Print a new secret for a job over several hosts",
		Long: `Print a new secret for a job over several hosts. All hosts get the same one, in
` + secret.Env + ` or in a file that launch.secret_file names; its
processes know each other by it. Nothing keeps a copy.`,
		Example: `  export ` + secret.Env + `="$(trainctl secret)"
  (umask 077; trainctl secret > job.secret)`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), secret.New().Reveal())
			return err
		},
	}
}
