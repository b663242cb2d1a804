package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func evalCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "eval CONFIG --checkpoint PATH",
		Short:   "Evaluate a checkpoint on the test data",
		Example: "  trainctl eval configs/mnist-ddp.toml --checkpoint mnist-ddp",
	}
	path := cmd.Flags().String("checkpoint", "", "checkpoint, run or safetensors file at `PATH`")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *path == "" {
			return cli.UsageOf(cmd, "--checkpoint PATH is missing")
		}
		return nil
	}
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		r, err := evaluate(cmd.Context(), p.Options(app.Options{Config: c, Request: train.Request{Resume: *path}, Log: cmd.ErrOrStderr()}))
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

// evalResult is what eval prints.
type evalResult struct {
	Checkpoint string  `json:"checkpoint"`
	Step       int     `json:"step"`
	Samples    int     `json:"samples"`
	Loss       float64 `json:"loss"`
	Accuracy   float64 `json:"accuracy"`

	// As in event.EvalDone; 0: none.
	Tokens      int     `json:"tokens,omitempty"`
	Perplexity  float64 `json:"perplexity,omitempty"`
	BitsPerByte float64 `json:"bits_per_byte,omitempty"`
}

func evaluate(ctx context.Context, o app.Options) (evalResult, error) {
	if err := app.FindCheckpoint(checkpoint.OsFS(), "--checkpoint", o.Config.Run.Dir, &o.Resume); err != nil {
		return evalResult{}, err
	}
	e, err := app.Evaluate(ctx, o)
	return evalResult{Checkpoint: e.Checkpoint, Step: e.Step, Samples: e.Samples, Loss: e.Loss, Accuracy: e.Accuracy, Tokens: e.Tokens, Perplexity: e.Perplexity, BitsPerByte: e.BitsPerByte}, err
}
