package samples

import (
	"fmt"
	"math"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Values of the options task, input_type and normalize.
const (
	Classification = "classification"
	Regression     = "regression"
	inputFloat     = "float"
	inputIndex     = "index"
	normalizeNone  = "none"
	normalizeTrain = "standard"
)

// Options returns the options that all data sets of numbers share.
func Options() []sdk.Option {
	one, most := 1.0, float64(math.MaxInt32)
	return []sdk.Option{
		{Name: "task", Type: sdk.String, Default: Classification, Enum: []string{Classification, Regression}, Doc: "What targets are: classes, or real numbers."},
		{Name: "classes", Type: sdk.StringList, Doc: "Names of the classes, by index."},
		{Name: "shape", Type: sdk.IntList, Min: &one, Max: &most, Doc: "Dimensions of one input, such as [1, 28, 28]. Default: as the data has them."},
		{Name: "input_type", Type: sdk.String, Default: inputFloat, Enum: []string{inputFloat, inputIndex}, Doc: "What the model gets: float32, or int32 indices for an embedding."},
		{Name: "normalize", Type: sdk.String, Default: normalizeNone, Enum: []string{normalizeNone, normalizeTrain}, Doc: "\"standard\" gives each input mean 0 and standard deviation 1 over the training samples."},
		{Name: "mean", Type: sdk.FloatList, Doc: "Subtracted from inputs: one number, or one for each element of a sample or of its first dimension."},
		{Name: "std", Type: sdk.FloatList, Doc: "Divisor after mean is subtracted, with as many numbers as mean may have."},
	}
}

// Find looks for the file of an option, if it names one.
func Find(fsys afero.Fs, key, path string) error {
	if path == "" {
		return nil
	}
	if _, err := fsys.Stat(path); err != nil {
		return usererr.Errorf(key, "give the path of a file; relative paths begin where trainctl was started", "there is no file at %q", path)
	}
	return nil
}

// Settings are these options, checked.
type Settings struct {
	Classify bool
	Classes  []string
	shape    tensor.Shape
	index    bool
	standard bool
	mean     []float64
	std      []float64
}

// Parse reads the options and adds what is wrong with them to l.
func Parse(l *usererr.List, o sdk.Options) Settings {
	s := Settings{
		Classify: o.String("task") == Classification, Classes: o.Strings("classes"), index: o.String("input_type") == inputIndex,
		standard: o.String("normalize") == normalizeTrain, mean: o.Floats("mean"), std: o.Floats("std"),
	}
	for _, n := range o.Ints("shape") {
		s.shape = append(s.shape, int(n))
	}
	if !s.Classify && s.Classes != nil {
		l.Addf("classes", "remove it, or task", "there are no classes with task = %q", Regression)
	}
	for _, key := range []string{"mean", "std"} {
		switch {
		case o.Has(key) && s.index:
			l.Addf(key, "remove it, or input_type", "indices cannot be normalised")
		case o.Has(key) && s.standard:
			l.Addf(key, "remove it, or normalize", "normalize = %q computes it", normalizeTrain)
		}
	}
	if s.index && s.standard {
		l.Addf("normalize", "remove it, or input_type", "indices cannot be normalised")
	}
	for _, v := range s.std {
		if !(v > 0) {
			l.Addf("std", "give positive numbers", "%v is not positive", v)
			break
		}
	}
	return s
}

// inputShape is the shape of a sample of the given dimensions.
func (s *Settings) inputShape(dims tensor.Shape) (tensor.Shape, error) {
	switch {
	case s.shape == nil && len(dims) == 0:
		return tensor.Shape{1}, nil
	case s.shape == nil:
		return dims, nil
	case s.shape.Elems() != dims.Elems():
		return nil, usererr.Errorf("shape", fmt.Sprintf("give dimensions with a product of %d", dims.Elems()), "%v has %d elements, and a sample of the data has %d", s.shape, s.shape.Elems(), dims.Elems())
	}
	return s.shape, nil
}

// scale is the normalisation of inputs: (x - mean)/std, by element.
type scale struct{ mean, std []float64 }

// scale returns the normalisation for inputs of a shape; nil for none.
func (s *Settings) scale(train *Array, shape tensor.Shape) (*scale, error) {
	if s.standard {
		return standard(train), nil
	}
	if s.mean == nil && s.std == nil {
		return nil, nil
	}
	out := &scale{}
	var err1, err2 error
	out.mean, err1 = spread("mean", s.mean, shape, 0)
	out.std, err2 = spread("std", s.std, shape, 1)
	if err1 != nil {
		return nil, err1
	}
	return out, err2
}

// spread expands an option's numbers to one for every element of a sample.
func spread(key string, values []float64, shape tensor.Shape, absent float64) ([]float64, error) {
	n := shape.Elems()
	out := make([]float64, n)
	if len(values) == 0 {
		values = []float64{absent}
	}
	k := len(values)
	if k != 1 && k != n && k != shape[0] {
		return nil, usererr.Errorf(key, "give one number, one for each of the first dimension, or one for each element", "has %d numbers for samples of %v", k, shape)
	}
	for i := range out {
		out[i] = values[i*k/n]
	}
	return out, nil
}

// standard is the mean and the standard deviation of each element over the samples, as NumPy's
// mean and std compute them; an element that never changes has a divisor of 1.
func standard(train *Array) *scale {
	n, width := float64(train.Samples()), train.Width()
	s := &scale{mean: make([]float64, width), std: make([]float64, width)}
	_ = train.each(func(_ int, values []float64) error {
		for j, v := range values {
			s.mean[j] += v
		}
		return nil
	})
	for j := range s.mean {
		s.mean[j] /= n
	}
	_ = train.each(func(_ int, values []float64) error {
		for j, v := range values {
			s.std[j] += (v - s.mean[j]) * (v - s.mean[j])
		}
		return nil
	})
	for j, v := range s.std {
		if s.std[j] = math.Sqrt(v / n); s.std[j] == 0 {
			s.std[j] = 1
		}
	}
	return s
}
