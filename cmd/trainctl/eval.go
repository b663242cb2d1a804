package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train"
)

func evalCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "eval CONFIG --checkpoint PATH",
		Short:   "Evaluate a checkpoint on the test data",
		Example: "  trainctl eval configs/mnist-ddp.toml --checkpoint mnist-ddp",
	}
	path := cmd.Flags().String("checkpoint", "", "checkpoint, run or safetensors file at `PATH`")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *path == "" {
			return &usageError{"--checkpoint PATH is missing", cmd.CommandPath()}
		}
		return nil
	}
	show := jsonFlag(cmd, "one JSON object")
	return withConfig(cmd, s, func(cmd *cobra.Command, c *config.Config) error {
		r, err := s.Eval(cmd.Context(), app.Options{Config: c, Request: train.Request{Resume: *path}, Log: cmd.ErrOrStderr()})
		if err != nil {
			return err
		}
		return show(r, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s (step %d): loss %.4f, accuracy %.2f %% of %d samples\n", r.Checkpoint, r.Step, r.Loss, 100*r.Accuracy, r.Samples)
			return err
		})
	})
}
