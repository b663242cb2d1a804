package mnist

import (
	"cmp"
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/digits"
)

// The sizes of both data sets.
const (
	trainSamples = 60000
	testSamples  = 10000
)

// Describe returns shape and sizes without looking for files.
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

// Locate checks that the files exist, if the data can come from nowhere else.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := parseSettings(o)
	if err != nil || s.download || s.generate {
		return err
	}
	look := &search{variant: d.variant, settings: s, fs: d.fs, env: d.getenv(dataEnv)}
	places := look.layouts(s.root)
	if look.env != "" {
		places = append(places, look.shelves(look.env)...)
	}
	for _, dir := range places {
		_, missing := look.lookAt(dir)
		if len(missing) == 0 {
			return nil
		}
		look.note(dir, "%s", look.lack(dir, missing))
	}
	if look.env == "" {
		look.note("$"+dataEnv, "not set")
	}
	look.note("download", "switched off (download = false)")
	return fmt.Errorf("%s: %w", d.name, look.nothing())
}

func inputSpec() tensor.Spec {
	return tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, digits.Size, digits.Size}}
}

var (
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
)
