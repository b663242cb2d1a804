package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/infer"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// ReadFile reads the samples of a file; the spec says what one is.
type ReadFile func(spec tensor.Spec, path string) ([]byte, error)

// PredictOptions say what to predict, and with which weights.
type PredictOptions struct {
	ForecastOptions
	Weights
	Paths []string // files and folders
	Batch int      // samples computed at a time, at least 1
	Top   int      // number of classes to report

	// Readers read files of an extension, whatever the data set.
	Readers map[string]ReadFile
}

// Predicted is a model's prediction for one sample of a file, or why the file cannot be read.
type Predicted struct {
	Path   string
	Sample int  // within the file
	Only   bool // the file has no other sample
	infer.Prediction
	Err error
}

// Predict predicts each sample of the files and passes it on, in order. A file that cannot be read
// is passed on with its error, and the others are predicted all the same. It computes on the CPU in
// float32, whatever the run's device and precision were.
func Predict(ctx context.Context, o PredictOptions, each func(Predicted) error) error {
	spec, err := o.openedSpec(ctx)
	if err != nil {
		return err
	}
	p := &prediction{o: &o, spec: &spec, each: each}
	if err := p.readers(); err != nil {
		return err
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	m, done, err := o.load(ctx, &spec, o.Weights)
	if err != nil {
		return err
	}
	defer done()
	if len(m.Classes) == spec.Classes {
		spec.ClassNames = m.Classes // those that the weights were trained on, whatever the data set has now
	}
	p.model = infer.NewPredictor(m, cpu.NewParallel(threads(o.Config.Launch, rank.Single(), os.LookupEnv)), &spec)
	for _, f := range files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := p.add(f); err != nil {
			return err
		}
	}
	return p.flush()
}

type prediction struct {
	o     *PredictOptions
	spec  *sdk.DatasetSpec
	model *infer.Predictor
	each  func(Predicted) error

	read    map[string]ReadFile // by extension
	waiting []Predicted         // of the batch, and files that cannot be read
	inputs  []byte
}

// readers collects the readers of the data set and those that serve any data set.
func (p *prediction) readers() error {
	p.read = map[string]ReadFile{}
	for ext, f := range p.o.Readers {
		p.read[ext] = f
	}
	c := p.o.Config
	f := newForecaster(context.Background(), p.o.ForecastOptions)
	plugin, info, err := f.builtin(sdk.KindDataset, c.Dataset.Plugin)
	if err != nil {
		return nil // given by a path: it has no reader here
	}
	d, ok := plugin.Dataset().(sdk.DatasetReader)
	if !ok {
		return nil
	}
	options, problems := sdk.CheckOptions("dataset.options", info.Options, c.Dataset.Options)
	if err := problems.Err(); err != nil {
		return err
	}
	for _, ext := range d.Extensions() {
		p.read[ext] = func(_ tensor.Spec, path string) ([]byte, error) { return d.Read(options, path) }
	}
	return nil
}

// files lists the files at the paths: files themselves, and from folders, sorted by name, those
// with a known extension.
func (p *prediction) files() (all []string, err error) {
	var l usererr.List
	for _, path := range p.o.Paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			l.Addf("PATH", "give files, or folders with files that end in "+p.known(), "%v", err)
		case !info.IsDir():
			all = append(all, path)
		default:
			n := len(all)
			if all, err = p.walk(all, path); err != nil {
				l.Addf("PATH", "", "%v", err)
			} else if len(all) == n {
				l.Addf("PATH", "give another folder, or files whatever their names", "%s has no file that ends in %s", path, p.known())
			}
		}
	}
	return all, l.Err()
}

func (p *prediction) walk(all []string, root string) ([]string, error) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch hidden := path != root && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case !hidden && !d.IsDir() && p.read[extension(path)] != nil:
			all = append(all, path)
		}
		return nil
	})
	return all, err
}

func extension(path string) string { return strings.ToLower(filepath.Ext(path)) }

// known lists the extensions of files that can be read.
func (p *prediction) known() string {
	var list []string
	for ext := range p.read {
		list = append(list, ext)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// add reads a file and computes the batches that it fills.
func (p *prediction) add(path string) error {
	inputs, err := p.samples(path)
	if err != nil {
		p.waiting = append(p.waiting, Predicted{Path: path, Err: err})
		return nil
	}
	size := p.spec.Input.Bytes()
	n := len(inputs) / size
	for i := range n {
		p.waiting = append(p.waiting, Predicted{Path: path, Sample: i, Only: n == 1})
		if p.inputs = append(p.inputs, inputs[i*size:][:size]...); len(p.inputs) == p.o.Batch*size {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// samples are the inputs of a file.
func (p *prediction) samples(path string) ([]byte, error) {
	read := p.read[extension(path)]
	if read == nil {
		if len(p.read) == 0 {
			return nil, fmt.Errorf("%s: the data set %q reads no files", path, p.o.Config.Dataset.Plugin)
		}
		return nil, fmt.Errorf("%s: the data set %q reads files that end in %s", path, p.o.Config.Dataset.Plugin, p.known())
	}
	inputs, err := read(p.spec.Input, path)
	if size := p.spec.Input.Bytes(); err == nil && (len(inputs) == 0 || len(inputs)%size != 0) {
		err = errors.New("has samples of another size")
	}
	if err != nil && !strings.Contains(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return inputs, err
}

// flush predicts the waiting samples and passes them on, interleaved with the files that cannot be read.
func (p *prediction) flush() error {
	var list []infer.Prediction
	if len(p.inputs) > 0 {
		aligned := tensor.Aligned(len(p.inputs))
		copy(aligned, p.inputs)
		var err error
		if list, err = p.model.Run(aligned, p.spec.ClassNames, p.o.Top); err != nil {
			return err
		}
	}
	for _, w := range p.waiting {
		if w.Err == nil {
			w.Prediction, list = list[0], list[1:]
			if w.NotFinite {
				w.Err = fmt.Errorf("%s: sample %d: the model's output is NaN or infinite; its weights have diverged, or the file's values are far from those of the training data", w.Path, w.Sample)
			}
		}
		if err := p.each(w); err != nil {
			return err
		}
	}
	p.waiting, p.inputs = p.waiting[:0], p.inputs[:0]
	return nil
}
