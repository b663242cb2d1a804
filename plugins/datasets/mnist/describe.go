package mnist

import (
	"cmp"
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// The sizes of both data sets.
const (
	trainSamples = 60000
	testSamples  = 10000
)

// Describe returns shape and sizes without looking for files.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	s, err := d.parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	in, target := d.images(&s, [2]*split{}).Spec()
	return sdk.DatasetSpec{
		Input:        in,
		Target:       target,
		Classes:      len(d.classes),
		ClassNames:   d.classes,
		TrainSamples: cmp.Or(s.Samples[sdk.Train], trainSamples),
		TestSamples:  cmp.Or(s.Samples[sdk.Test], testSamples),
	}, nil
}

// Locate checks that the files exist, if there is no other source of the data.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := d.parseSettings(o)
	if err != nil {
		return err
	}
	look := d.search(s)
	if err := source.Locate(&look.Search, look, look.lack); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

var (
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
)
