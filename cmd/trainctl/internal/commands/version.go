package commands

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  trainctl version",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "trainctl %s %s %s/%s\n", cli.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
