package main

import (
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/config"
)

func planCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plan CONFIG",
		Short:   "Show ranks, shapes, memory and buckets of a run without starting it",
		Example: "  trainctl plan configs/mnist-ddp.toml --nproc-per-node 8 --json",
	}
	openData := cmd.Flags().Bool("open-data", false, "let a data set plugin given by a path open its data, to find their shape")
	show := jsonFlag(cmd, "one JSON object")
	return withConfig(cmd, s, func(cmd *cobra.Command, c *config.Config) error {
		r, err := s.Plan(cmd.Context(), c, *openData)
		if err != nil {
			return err
		}
		return show(r, r.Text)
	})
}
