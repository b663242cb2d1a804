package csv

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return []string{".csv", ".tsv"} }

// Read implements [sdk.DatasetReader]: columns are those of the training file, by name, and inputs are
// filled and normalised like those of the data set. Columns of targets are not read, and may be missing.
func (d *Dataset) Read(o sdk.Options, path string) ([]byte, error) {
	s, err := parseSettings(o)
	if err != nil {
		return nil, err
	}
	train, err := readTable(d.fs, &s, s.files[sdk.Train])
	if err != nil {
		return nil, err
	}
	s.columns, s.unlabelled = train.names, true
	given, err := readTable(d.fs, &s, path)
	if err != nil {
		return nil, err
	}
	means := train.means()
	train.fill(means)
	given.fill(means)
	return samples.Inputs(s.Settings, train.input(), given.input())
}

// input are the inputs of all lines.
func (t *table) input() *samples.Array {
	return samples.Floats(t.path, tensor.Shape{len(t.lines), len(t.names)}, t.inputs)
}

var _ sdk.DatasetReader = (*Dataset)(nil)
