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
			_, err := fmt.Fprintf(w, "%s (step %d): loss %.4f, %s\n", r.Checkpoint, r.Step, r.Loss, r.measures())
			return err
		})
	})
}

// measures are what was measured besides the loss, and over what.
func (r evalResult) measures() string {
	var t string
	if r.Perplexity != 0 {
		t = fmt.Sprintf("perplexity %.4g, ", r.Perplexity)
	}
	if r.BitsPerByte != 0 {
		t += fmt.Sprintf("%.4f bits per byte, ", r.BitsPerByte)
	}
	if !(r.Accuracy < 0) {
		t += fmt.Sprintf("accuracy %.2f %% of ", 100*r.Accuracy)
	}
	if r.Tokens != 0 {
		return t + fmt.Sprintf("%d tokens in %d samples", r.Tokens, r.Samples)
	}
	return t + fmt.Sprintf("%d samples", r.Samples)
}
