package cifar10

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/source"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// The values of DatasetSpec.Source.
const (
	SourceBinary    = "binary"    // existing files
	SourceDownload  = "download"  // files that this plugin downloaded, now or in an earlier run
	SourceGenerated = "generated" // images drawn by package shapes
)

// Dataset is one open data set. The zero value is not usable; see [New].
type Dataset struct {
	fs      afero.Fs
	getenv  func(string) string
	records int    // in one file; tests have smaller files
	md5     string // of the archive

	splits        [2]*split // by sdk.Split
	*vision.Small           // nil while it is not open
}

// New returns CIFAR-10, with files in fs.
func New(fs afero.Fs) *Dataset {
	return &Dataset{fs: fs, getenv: os.Getenv, records: fileRecords, md5: archiveMD5}
}

// Open finds and verifies the data, and downloads it if needed.
func (d *Dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	o, err := parseSettings(req.Options)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	look := d.search(o)
	look.LogTo(req)
	got, err := source.Find(ctx, &look.Search, look)
	if err != nil {
		return sdk.DatasetSpec{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := got.limit(o); err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.splits, d.Small = got.splits, o.images(got.splits)
	if d.Partners, err = o.more.Partners(req, d.TrainClasses()); err != nil {
		return sdk.DatasetSpec{}, err
	}
	spec := specification(o, got.splits[sdk.Train].n, got.splits[sdk.Test].n)
	spec.Source, spec.ClassNames, spec.Notice, spec.Fingerprint = got.source, got.classes, got.notice, got.fingerprint()
	return spec, nil
}

// Describe returns shape and sizes without looking for files.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	s, err := parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	n := [2]int{trainFiles * d.records, d.records}
	for i, limit := range s.Samples {
		if limit > 0 {
			n[i] = min(n[i], limit)
		}
	}
	return specification(s, n[sdk.Train], n[sdk.Test]), nil
}

// Locate checks that the files exist, if there is no other source of the data.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := parseSettings(o)
	if err != nil {
		return err
	}
	look := d.search(s)
	if err := source.Locate(&look.Search, look, look.lack); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// store is the samples of both splits.
type store [2]*split

// Samples implements [vision.Store].
func (s store) Samples(k sdk.Split) int { return s[k].n }

// Sample implements [vision.Store].
func (s store) Sample(k sdk.Split, index int, room []byte) (planes []byte, class int32) {
	image, label := s[k].sample(index, room)
	return image, int32(label)
}

// images serves samples with these settings.
func (o settings) images(splits [2]*split) *vision.Small {
	return &vision.Small{
		Name: name, Store: store(splits), Side: side, Levels: o.norm.Levels()[:], Classes: len(classNames), Crop: o.augment, Flip: true, More: o.more,
	}
}

func specification(o settings, train, test int) sdk.DatasetSpec {
	in, target := o.images([2]*split{}).Spec()
	return sdk.DatasetSpec{
		Input: in, Target: target,
		Classes: len(classNames), ClassNames: classNames,
		TrainSamples: train, TestSamples: test,
	}
}

// TrainClasses returns the class of every training image.
func (d *Dataset) TrainClasses() []int32 {
	s := d.splits[sdk.Train]
	classes := make([]int32, s.n)
	for i := range classes {
		classes[i] = int32(s.label(i))
	}
	return classes
}

// Close releases the memory. It may be called more than once.
func (d *Dataset) Close() error {
	d.splits, d.Small = [2]*split{}, nil
	return nil
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
)
