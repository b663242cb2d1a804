package inference

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/infer"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/numpy"
)

// Predict is the command that applies a model to files.
func Predict(p *cli.Program) *cobra.Command {
	var o app.PredictOptions
	cmd := &cobra.Command{
		Use:   "predict CONFIG PATH... --checkpoint PATH",
		Short: "Apply a trained model to files",
		Long: `Apply a trained model to files: images with the transform of the data set's test split,
or files of tokens. An array (.npy, or .npz with one array) contains one sample or several,
transformed as by the data set "numpy", or unchanged with other data sets. A folder stands for
the files in it whose extensions the data set reads. A file that cannot be read is named on
standard error, the others are processed, and the exit code is 1.`,
		Example: `  trainctl predict configs/mnist-ddp.toml digit.png --checkpoint mnist-ddp
  trainctl predict flowers.toml photos/ --checkpoint flowers --top-k 5 --json > photos.jsonl`,
	}
	cli.WeightsFlags(cmd, &o.Weights)
	cmd.Flags().IntVar(&o.Top, "top-k", 1, "name the `K` likeliest classes")
	cmd.Flags().IntVar(&o.Batch, "batch", 32, "compute `N` samples at a time")
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object for each sample")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.Checkpoint == "":
			return cli.UsageOf(cmd, "--checkpoint PATH is missing")
		case o.Top < 1:
			return cli.UsageOf(cmd, "--top-k %d is below 1", o.Top)
		case o.Batch < 1:
			return cli.UsageOf(cmd, "--batch %d is below 1", o.Batch)
		}
		return nil
	}
	cmd = p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		o.ForecastOptions = p.Forecast(c)
		o.Readers = map[string]app.ReadFile{}
		for _, ext := range numpy.Extensions() {
			o.Readers[ext] = func(sample tensor.Spec, path string) ([]byte, error) {
				return numpy.ReadInputs(afero.NewOsFs(), path, sample)
			}
		}
		s := &shown{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), json: *asJSON}
		if err := app.Predict(cmd.Context(), o, s.show); err != nil {
			return err
		}
		return s.ended()
	})
	run, one := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			o.Paths = args[1:]
			return nil
		}
		if err := one(cmd, args); err != nil {
			return err
		}
		return cli.UsageOf(cmd, "PATH is missing: files or folders")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, args[:1]) }
	return cmd
}

// shown prints predictions as they come.
type shown struct {
	out, err        io.Writer
	json            bool
	files, unusable int
	last            string // of the unusable ones
}

func (s *shown) show(p app.Predicted) error {
	if p.Sample == 0 {
		s.files++
	}
	switch {
	case p.Err != nil:
		if s.last != p.Path {
			s.last, s.unusable = p.Path, s.unusable+1
		}
		_, err := fmt.Fprintf(s.err, "error: %v\n", p.Err)
		return err
	case s.json:
		return json.NewEncoder(s.out).Encode(struct {
			Path   string `json:"path"`
			Sample int    `json:"sample"`
			infer.Prediction
		}{p.Path, p.Sample, p.Prediction})
	}
	_, err := fmt.Fprintln(s.out, row(&p))
	return err
}

// row is a line of the table.
func row(p *app.Predicted) string {
	cells := []string{p.Path}
	if !p.Only {
		cells[0] = fmt.Sprintf("%s[%d]", p.Path, p.Sample)
	}
	for _, c := range p.Top {
		name := c.Name
		if name == "" {
			name = fmt.Sprint(c.Index)
		}
		if strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) == "" {
			name = strconv.Quote(name) // a character of a text
		}
		cells = append(cells, fmt.Sprintf("%s %.1f %%", name, 100*c.Probability))
	}
	for _, v := range p.Values {
		cells = append(cells, fmt.Sprintf("%.6g", v))
	}
	return strings.Join(cells, "\t")
}

func (s *shown) ended() error {
	if s.unusable == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d files cannot be used; they are named above", s.unusable, s.files)
}
