package cifar10

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
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

	splits  [2]*split // by sdk.Split
	levels  *vision.Levels
	augment bool
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
	d.splits, d.levels, d.augment = got.splits, o.norm.Levels(), o.augment
	spec := specification(got.splits[sdk.Train].n, got.splits[sdk.Test].n)
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
	return specification(n[sdk.Train], n[sdk.Test]), nil
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

func specification(train, test int) sdk.DatasetSpec {
	return sdk.DatasetSpec{
		Input:   tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{vision.Channels, side, side}},
		Target:  tensor.Spec{DType: tensor.I32},
		Classes: len(classNames), ClassNames: classNames,
		TrainSamples: train, TestSamples: test,
	}
}

var errNotOpen = errors.New("cifar10: the data set is not open")

// Fill writes images as float32 [3, 32, 32] and classes as int32. It allocates
// nothing.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if int(b.Split) >= len(d.splits) || d.splits[b.Split] == nil {
		return errNotOpen
	}
	s, n := d.splits[b.Split], len(b.Indices)
	if len(b.Input) != n*imageBytes*4 || len(b.Target) != n*4 {
		return fmt.Errorf("cifar10: %d samples need %d and %d bytes, the batch has %d and %d", n, n*imageBytes*4, n*4, len(b.Input), len(b.Target))
	}
	input, target := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	var drawn [imageBytes]byte
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < 0 || index >= int64(s.n) {
			return fmt.Errorf("cifar10: index %d is out of range for %d samples", index, s.n)
		}
		image, label := s.sample(int(index), &drawn)
		v := view{x: pad, y: pad}
		if d.augment && b.Split == sdk.Train && !b.NoAugment {
			v = randomView(b.Seed, b.Epoch, index)
		}
		v.write(input[i*imageBytes:(i+1)*imageBytes], image, d.levels)
		target[i] = int32(label)
	}
	return nil
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
	d.splits = [2]*split{}
	return nil
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
)
