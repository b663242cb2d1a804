package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func evalCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "eval CONFIG --checkpoint PATH",
		Short:   "Evaluate a checkpoint on the test data",
		Example: "  trainctl eval configs/mnist-ddp.toml --checkpoint mnist-ddp",
	}
	var w app.Weights
	cli.WeightsFlags(cmd, &w)
	var output string
	cmd.Flags().StringVarP(&output, "output", "o", "", "also write evaluation.json, and pictures of the worst samples, into folder `DIR`")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if w.Checkpoint == "" {
			return cli.UsageOf(cmd, "--checkpoint PATH is missing")
		}
		return nil
	}
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		if err := outputFolder(output, c); err != nil {
			return err
		}
		r, err := evaluate(cmd.Context(), p.Options(app.Options{Config: c, EvaluationDir: output, Log: cmd.ErrOrStderr()}), w)
		if err != nil {
			return err
		}
		return show(r, func(w io.Writer) error {
			if _, err := fmt.Fprintf(w, "%s (step %d): loss %.4f, %s\n", r.Checkpoint, r.Step, r.Loss, r.measures()); err != nil {
				return err
			}
			return r.classes(w)
		})
	})
}

// outputFolder makes the folder of --output, if the evaluation will write something into it.
func outputFolder(dir string, c *config.Config) error {
	if dir == "" {
		return nil
	}
	if !c.Eval.NeedsOutputs() {
		return usererr.Errorf("--output", `choose what to write, such as --set 'eval.metrics=["accuracy", "confusion", "worst"]'`, "[eval] metrics has nothing that is written to %s", dir)
	}
	return os.MkdirAll(dir, 0o755)
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
	if r.Metrics != nil && r.Metrics.TopK > 0 {
		t += fmt.Sprintf("top-%d accuracy %.2f %%, ", r.Metrics.TopK, 100*float64(r.Metrics.TopKAccuracy))
	}
	if !(r.Accuracy < 0) {
		t += fmt.Sprintf("accuracy %.2f %% of ", 100*r.Accuracy)
	}
	if r.Tokens != 0 {
		return t + fmt.Sprintf("%d tokens in %d samples", r.Tokens, r.Samples)
	}
	return t + fmt.Sprintf("%d samples", r.Samples)
}

// classes prints the metrics of each class.
func (r evalResult) classes(w io.Writer) error {
	if r.Metrics == nil || r.Metrics.PerClass == nil {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "class\tsamples\tprecision\trecall\tF1\taccuracy\t")
	for _, c := range r.Metrics.PerClass {
		name := cmp.Or(c.Name, fmt.Sprint(c.Class))
		fmt.Fprintf(t, "%s\t%d\t%.2f %%\t%.2f %%\t%.4f\t%.2f %%\t\n", name, c.Samples, 100*float64(c.Precision), 100*float64(c.Recall), float64(c.F1), 100*float64(c.Accuracy))
	}
	return t.Flush()
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

	Metrics *event.EvalMetrics `json:"metrics,omitempty"`
}

func evaluate(ctx context.Context, o app.Options, w app.Weights) (evalResult, error) {
	if err := w.Find(ctx, checkpoint.OsFS(), o.Config.Run.Dir); err != nil {
		return evalResult{}, err
	}
	o.Resume = w.Checkpoint
	e, err := app.Evaluate(ctx, o)
	return evalResult{Checkpoint: e.Checkpoint, Step: e.Step, Samples: e.Samples, Loss: e.Loss, Accuracy: e.Accuracy, Tokens: e.Tokens, Perplexity: e.Perplexity, BitsPerByte: e.BitsPerByte, Metrics: e.Metrics}, err
}
