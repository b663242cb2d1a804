package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/plugin/flight"
)

// doctorRun prints the last operations of a run's ranks, dead or alive.
func doctorRun(cmd *cobra.Command, path string, last int, asJSON bool) error {
	dir, err := findRun(defaultRuns, path)
	if err != nil {
		return err
	}
	report, err := flight.Read(dir.Flights())
	if err != nil {
		return fmt.Errorf("%s: %w", dir.Path, err)
	}
	if asJSON {
		return report.JSON(cmd.OutOrStdout())
	}
	return report.Text(cmd.OutOrStdout(), last)
}
