package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func evalCommand(s *services) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:     "eval CONFIG --checkpoint PATH",
		Short:   "Evaluate a checkpoint on the test data",
		Example: "  trainctl eval configs/mnist-ddp.toml --checkpoint mnist-ddp",
		Args:    exactly("CONFIG"),
	}
	flags.register(cmd)
	path := cmd.Flags().String("checkpoint", "", "checkpoint, run or safetensors file at `PATH`")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *path == "" {
			return &usageError{"--checkpoint PATH is missing", cmd.CommandPath()}
		}
		c, err := flags.load(cmd, s, args[0])
		if err != nil {
			return err
		}
		warn(cmd, c)
		if s.Eval == nil {
			return absent("eval")
		}
		r, err := s.Eval(cmd.Context(), evalRequest{Config: c, Checkpoint: *path, Stderr: cmd.ErrOrStderr()})
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), r)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (step %d): loss %.4f, accuracy %.2f %% of %d samples\n",
			r.Checkpoint, r.Step, r.Loss, 100*r.Accuracy, r.Samples)
		return err
	}
	return cmd
}
