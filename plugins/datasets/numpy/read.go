package numpy

import (
	"fmt"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

// Extensions lists those of the files that NumPy saves.
func Extensions() []string { return []string{".npy", ".npz"} }

// ReadInputs reads samples of a given shape from an array of samples, or of a single one, without
// normalising them, for models of any data set. An archive must have one array.
func ReadInputs(fsys afero.Fs, path string, sample tensor.Spec) ([]byte, error) {
	a, err := inputsOf(fsys, path, sample.Shape)
	if err != nil {
		return nil, err
	}
	values := make([]float64, a.Width())
	out := tensor.Aligned(a.Samples() * sample.Bytes())
	for i := range a.Samples() {
		a.Row(values, i)
		for j, v := range values {
			if at := i*len(values) + j; sample.DType == tensor.I32 {
				tensor.View[int32](out)[at] = int32(v)
			} else {
				tensor.View[float32](out)[at] = float32(v)
			}
		}
	}
	return out, nil
}

// inputsOf reads an array of samples of a given shape, with the samples as first dimension, or of a single
// sample.
func inputsOf(fsys afero.Fs, path string, sample tensor.Shape) (*samples.Array, error) {
	a, err := load(fsys, parsePlace(path), "PATH")
	if err != nil {
		return nil, err
	}
	if a.Shape.Equal(sample) {
		a.Shape = slices.Concat(tensor.Shape{1}, a.Shape)
	}
	if len(a.Shape) == 0 || a.Shape[1:].Elems() != sample.Elems() {
		return nil, fmt.Errorf("%s has the shape %v, and a sample has %v; fix: save one sample, or an array whose first dimension counts them", path, a.Shape, sample)
	}
	return a, nil
}

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return Extensions() }

// Read implements [sdk.DatasetReader]: inputs are normalised like those of the data set.
func (d *Dataset) Read(o sdk.Options, path string) ([]byte, error) {
	s, places, err := parseSettings(o)
	if err != nil {
		return nil, err
	}
	input, err := load(d.fs, places[0], keys[0])
	if err != nil {
		return nil, err
	}
	given, err := inputsOf(d.fs, path, input.Shape[1:])
	if err != nil {
		return nil, err
	}
	return samples.Inputs(s, input, given)
}

var _ sdk.DatasetReader = (*Dataset)(nil)
