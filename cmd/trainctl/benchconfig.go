package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/config"
)

// measurement measures something of a configuration for about a given time.
type measurement[R any] func(ctx context.Context, c *config.Config, budget time.Duration) (R, error)

// measureConfig makes cmd measure its configuration and print the report, as text
// or JSON. service is called when the command runs, since a build may lack it.
func measureConfig[R any](cmd *cobra.Command, s *services, usual time.Duration, name string, service func() measurement[R], print func(io.Writer, R) error) {
	var flags configFlags
	flags.register(cmd)
	budget := cmd.Flags().Duration("budget", usual, "measure for this `TIME`")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := flags.load(cmd, s, args[0])
		if err != nil {
			return err
		}
		warn(cmd, c)
		measure := service()
		if measure == nil {
			return absent(name)
		}
		r, err := measure(cmd.Context(), c, *budget)
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		}
		return print(cmd.OutOrStdout(), r)
	}
}
