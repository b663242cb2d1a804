package app

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/infer"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// GenerateOptions say what text to generate, and with which weights.
type GenerateOptions struct {
	ForecastOptions
	Weights
	infer.Generation
}

// Weights say which weights a model gets.
type Weights struct {
	Checkpoint string // checkpoint, run or safetensors file
	Average    bool   // the checkpoint's moving averages

	classes []string // that the checkpoint names
}

// Generate writes a trained language model's continuation of a prompt. It computes on the CPU in
// float32, whatever the run's device and precision were.
func Generate(ctx context.Context, o GenerateOptions, w io.Writer) (infer.Generated, error) {
	spec, err := o.openedSpec(ctx)
	if err != nil {
		return infer.Generated{}, err
	}
	t, err := tokenizerOf(&spec, o.Config)
	if err != nil {
		return infer.Generated{}, err
	}
	m, done, err := o.load(ctx, &spec, o.Weights)
	if err != nil {
		return infer.Generated{}, err
	}
	defer done()
	d, err := infer.NewDecoder(m, threads(o.Config.Launch, rank.Single(), os.LookupEnv))
	if err != nil {
		return infer.Generated{}, err
	}
	return infer.Generate(ctx, d, t, o.Generation, w)
}

// LoadModel builds the model of a configuration and reads a checkpoint's weights. Layers of plugins cannot be computed.
func LoadModel(ctx context.Context, o ForecastOptions, w Weights) (*infer.Model, error) {
	spec, err := o.openedSpec(ctx)
	if err != nil {
		return nil, err
	}
	m, done, err := o.load(ctx, &spec, w)
	if err == nil {
		done()
	}
	return m, err
}

// openedSpec opens the data set of a configuration and returns how it describes itself.
func (o *ForecastOptions) openedSpec(ctx context.Context) (sdk.DatasetSpec, error) {
	opened := *o
	opened.OpenData = true
	spec, err := newForecaster(ctx, opened).dataset(ctx)
	return spec, AtPlace(o.Config, err)
}

// load builds the model of a configuration for its data set, and reads a checkpoint's weights. done ends the
// plugins that compute its layers.
func (o *ForecastOptions) load(ctx context.Context, spec *sdk.DatasetSpec, w Weights) (m *infer.Model, done func(), err error) {
	fsys := checkpoint.OsFS()
	if err := w.Find(ctx, fsys, o.Config.Run.Dir); err != nil {
		return nil, nil, err
	}
	layers, err := openLayerPlugins(ctx, o.Host.WithTerms(o.Config.Terms()), o.Config, nil)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = layers.Close(context.WithoutCancel(ctx)) }
	m, err = infer.Load(ctx, fsys, layers.model(o.Config.Model), spec, w.Checkpoint)
	if err == nil && m.Classes == nil {
		m.Classes = w.classes
	}
	if err != nil {
		done()
	}
	return m, done, AtPlace(o.Config, err)
}

// Find resolves the path in Checkpoint, which may name a run under base, and checks that there are weights.
func (w *Weights) Find(ctx context.Context, fsys checkpoint.FS, base string) error {
	if err := FindCheckpoint(fsys, "--checkpoint", base, &w.Checkpoint); err != nil || !w.Average {
		return err
	}
	snap, report, err := checkpoint.Load(ctx, fsys, w.Checkpoint)
	if err != nil {
		return err
	}
	w.classes = snap.Dataset.Classes
	w.Checkpoint = filepath.Join(report.Path, checkpoint.AverageFile)
	if _, err := fsys.Stat(w.Checkpoint); err != nil {
		return usererr.Errorf("--ema", "leave it out; a run with optimizer.ema_decay saves them", "%s has no moving averages of weights", report.Path)
	}
	return nil
}

// tokenizerOf is the tokenizer of the texts of a data set.
func tokenizerOf(spec *sdk.DatasetSpec, c *config.Config) (tokenizer.Tokenizer, error) {
	if spec.Tokenizer == "" {
		return nil, AtPlace(c, usererr.Errorf("dataset.plugin", `use the data set "text"; for token files without a description, set dataset.options.tokenizer`,
			"the data set %q does not say how text becomes tokens", c.Dataset.Plugin))
	}
	t, err := tokenizer.Open(afero.NewOsFs(), spec.Tokenizer, spec.ClassNames)
	return t, AtPlace(c, usererr.Under("dataset.options", err))
}
