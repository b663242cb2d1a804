package numpy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

const name = "numpy"

// Dataset is one open data set.
type Dataset struct {
	fs afero.Fs
	samples.Set
}

// New returns a data set of arrays in fs.
func New(fs afero.Fs) *Dataset { return &Dataset{fs: fs} }

// keys are the options that name arrays: inputs and targets of the training split, then of the
// test split.
var keys = [4]string{"inputs", "targets", "test_inputs", "test_targets"}

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	const form = `: a .npy file, or an array of an archive as "data.npz:name".`
	return sdk.Info{
		Kind: sdk.KindDataset, Name: name, Version: "1.0.0",
		Summary: "arrays that NumPy saved, from .npy and .npz files",
		Options: slices.Concat([]sdk.Option{
			{Name: keys[0], Type: sdk.String, Required: true, Doc: "Training samples, one for each index of the first dimension" + form},
			{Name: keys[1], Type: sdk.String, Required: true, Doc: "Their targets" + form},
			{Name: keys[2], Type: sdk.String, Default: "", Doc: "Samples to evaluate on; without them, dataset.validation holds training samples out" + form},
			{Name: keys[3], Type: sdk.String, Default: "", Doc: "Their targets" + form},
		}, samples.Options()),
	}
}

func parseSettings(o sdk.Options) (s samples.Settings, places [4]place, err error) {
	var l usererr.List
	s = samples.Parse(&l, o)
	for i, key := range keys {
		places[i] = parsePlace(o.String(key))
		if file := places[i].file; file != "" && !strings.HasSuffix(file, ".npy") && !strings.HasSuffix(file, ".npz") {
			l.Addf(key, `give "FILE.npy" or "FILE.npz:NAME"`, "%q does not name a .npy or .npz file", o.String(key))
		}
	}
	if (places[2].file == "") != (places[3].file == "") {
		l.Addf(keys[2], "give both, or neither", "%s and %s belong together", keys[2], keys[3])
	}
	return s, places, l.Err()
}

// place is where an array is.
type place struct{ file, member string }

func (p place) String() string {
	if p.member == "" {
		return p.file
	}
	return p.file + ":" + p.member
}

func parsePlace(text string) place {
	if file, member, found := strings.Cut(text, ".npz:"); found {
		return place{file + ".npz", member}
	}
	return place{file: text}
}

// Open reads the arrays.
func (d *Dataset) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return d.open(req.Options)
}

// Describe reads the arrays, because classes follow from them.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) { return New(d.fs).open(o) }

func (d *Dataset) open(o sdk.Options) (sdk.DatasetSpec, error) {
	s, places, err := parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	var arrays [4]*samples.Array
	for i, p := range places {
		if p.file == "" {
			continue
		}
		if arrays[i], err = load(d.fs, p, keys[i]); err != nil {
			return sdk.DatasetSpec{}, err
		}
	}
	train, test := samples.Part{Input: arrays[0], Target: arrays[1]}, samples.Part{Input: arrays[2], Target: arrays[3]}
	set, err := samples.New(s, name, train, test)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.Set = *set
	return d.Spec(), nil
}

// Locate looks for the files.
func (d *Dataset) Locate(o sdk.Options) error {
	_, places, err := parseSettings(o)
	if err != nil {
		return err
	}
	for i, p := range places {
		err = errors.Join(err, samples.Find(d.fs, keys[i], p.file))
	}
	return err
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
	_ sdk.DatasetClasses   = (*Dataset)(nil)
)
