package mnist

import (
	"cmp"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/digits"
)

// The sizes of both data sets.
const (
	trainSamples = 60000
	testSamples  = 10000
)

// Describe gives shape and sizes without looking for any file.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	s, err := parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	return sdk.DatasetSpec{
		Input:        inputSpec(),
		Target:       tensor.Spec{DType: tensor.I32},
		Classes:      len(d.classes),
		ClassNames:   d.classes,
		TrainSamples: cmp.Or(s.samples[sdk.Train], trainSamples),
		TestSamples:  cmp.Or(s.samples[sdk.Test], testSamples),
	}, nil
}

func inputSpec() tensor.Spec {
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, digits.Size, digits.Size}}
}

var _ sdk.DatasetDescriber = (*Dataset)(nil)
