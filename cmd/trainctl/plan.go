package main

import "github.com/spf13/cobra"

func planCommand(s *services) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:     "plan CONFIG",
		Short:   "Show ranks, shapes, memory and buckets of a run without starting it",
		Example: "  trainctl plan configs/mnist-ddp.toml --nproc-per-node 8 --json",
		Args:    exactly("CONFIG"),
	}
	flags.register(cmd)
	openData := cmd.Flags().Bool("open-data", false, "let a data set plugin given by a path open its data, to find their shape")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := flags.load(cmd, s, args[0])
		if err != nil {
			return err
		}
		warn(cmd, c)
		if s.Plan == nil {
			return absent("plan")
		}
		r, err := s.Plan(cmd.Context(), c, *openData)
		if err != nil {
			return err
		}
		if *asJSON {
			return r.JSON(cmd.OutOrStdout())
		}
		return r.Text(cmd.OutOrStdout())
	}
	return cmd
}
