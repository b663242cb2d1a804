package csv

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

const name = "csv"

// Values of the option missing.
const (
	missingError = "error"
	missingMean  = "mean"
)

// Dataset is one open data set.
type Dataset struct {
	fs afero.Fs
	samples.Set
}

// New returns a data set of CSV files in fs.
func New(fs afero.Fs) *Dataset { return &Dataset{fs: fs} }

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindDataset, Name: name, Version: "1.0.0",
		Summary: "tables of numbers and labels, from CSV files",
		Options: slices.Concat([]sdk.Option{
			{Name: "train", Type: sdk.String, Required: true, Doc: "File with the training samples, one in each line."},
			{Name: "test", Type: sdk.String, Default: "", Doc: "File with the samples to evaluate on; without it, dataset.validation holds training samples out."},
			{Name: "targets", Type: sdk.StringList, Required: true, Doc: "Columns with the targets: one for classification, one or more for regression."},
			{Name: "columns", Type: sdk.StringList, Doc: "Columns with the inputs, in their order. Default: all that are not targets."},
			{Name: "header", Type: sdk.Boolean, Default: true, Doc: "The first line has the names of the columns; without it they are \"0\", \"1\", and so on."},
			{Name: "delimiter", Type: sdk.String, Default: ",", Doc: "Character between the fields of a line, such as \";\" or \"\\t\"."},
			{Name: "comment", Type: sdk.String, Default: "", Doc: "Character that begins lines to ignore, such as \"#\"."},
			{Name: "missing", Type: sdk.String, Default: missingError, Enum: []string{missingError, missingMean}, Doc: "What an empty field, NA, NaN, null or ? of an input is: an error, or the mean of its column over the training samples."},
		}, samples.Options()),
	}
}

// settings are the options, checked.
type settings struct {
	samples.Settings
	files              [2]string // by sdk.Split
	targets, columns   []string
	header, fill       bool
	unlabelled         bool // columns of targets are not read
	delimiter, comment rune
}

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		Settings: samples.Parse(&l, o), files: [2]string{o.String("train"), o.String("test")},
		targets: o.Strings("targets"), columns: o.Strings("columns"), header: o.Bool("header"), fill: o.String("missing") == missingMean,
		delimiter: character(&l, o, "delimiter"), comment: character(&l, o, "comment"),
	}
	if n := len(s.targets); n == 0 || n > 1 && s.Classify {
		l.Addf("targets", "name one column, or set task = \"regression\"", "%d columns cannot be the class of a sample", n)
	}
	for _, c := range s.columns {
		if slices.Contains(s.targets, c) {
			l.Addf("columns", "leave it out", "%q is a target", c)
		}
	}
	if s.delimiter == 0 || s.delimiter == s.comment {
		l.Addf("delimiter", `write "," or ";" or "\t"`, "%q does not separate fields", o.String("delimiter"))
	}
	return s, l.Err()
}

// character reads an option of one character; 0 for none.
func character(l *usererr.List, o sdk.Options, key string) rune {
	r := []rune(o.String(key))
	if len(r) == 0 {
		return 0
	}
	if len(r) > 1 || r[0] == '"' || r[0] == '\r' || r[0] == '\n' {
		l.Addf(key, "give one character", "%q is not a character that can stand between fields", o.String(key))
	}
	return r[0]
}

// Open reads the files.
func (d *Dataset) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return d.open(req.Options)
}

// Describe reads the files, because sizes and classes follow from them.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) { return New(d.fs).open(o) }

func (d *Dataset) open(o sdk.Options) (sdk.DatasetSpec, error) {
	s, err := parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	if err := d.find(&s); err != nil {
		return sdk.DatasetSpec{}, err
	}
	train, err := readTable(d.fs, &s, s.files[sdk.Train])
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	test := &table{}
	if s.files[sdk.Test] != "" {
		if test, err = readTable(d.fs, &s, s.files[sdk.Test]); err != nil {
			return sdk.DatasetSpec{}, err
		}
		test.fill(train.means())
	}
	train.fill(train.means())
	if s.Classify {
		s.Classes = classNames(train.labels, s.Classes)
	}
	parts := [2]samples.Part{}
	for i, t := range []*table{train, test} {
		if parts[i], err = t.part(&s); err != nil {
			return sdk.DatasetSpec{}, err
		}
	}
	set, err := samples.New(s.Settings, name, parts[sdk.Train], parts[sdk.Test])
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.Set = *set
	return d.Spec(), nil
}

// Locate looks for the files.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := parseSettings(o)
	if err != nil {
		return err
	}
	return d.find(&s)
}

func (d *Dataset) find(s *settings) error {
	return errors.Join(samples.Find(d.fs, "train", s.files[sdk.Train]), samples.Find(d.fs, "test", s.files[sdk.Test]))
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
	_ sdk.DatasetClasses   = (*Dataset)(nil)
)
