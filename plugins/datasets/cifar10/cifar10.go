package cifar10

import (
	"cmp"
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
	augment bool           // crop and flip
	more    vision.Augment // the transforms after them
	image   *vision.Image  // current image
	partner []float32      // the sample that another one is mixed with
}

// New returns CIFAR-10, with files in fs.
func New(fs afero.Fs) *Dataset {
	return &Dataset{fs: fs, getenv: os.Getenv, records: fileRecords, md5: archiveMD5}
}

// Open finds and verifies the data, and downloads it if needed.
func (d *Dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	o, err := parseSettings(req.Options)
	if err = cmp.Or(err, o.more.CheckMixes(req)); err != nil {
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
	d.splits, d.levels, d.augment, d.more = got.splits, o.norm.Levels(), o.augment, o.more
	d.image, d.partner = vision.NewImage(side, side), make([]float32, imageBytes)
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

func specification(o settings, train, test int) sdk.DatasetSpec {
	return sdk.DatasetSpec{
		Input:   tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{vision.Channels, side, side}},
		Target:  o.more.TargetSpec(len(classNames)),
		Classes: len(classNames), ClassNames: classNames,
		TrainSamples: train, TestSamples: test,
	}
}

var errNotOpen = errors.New("cifar10: the data set is not open")

// Fill writes images as float32 [3, 32, 32] and classes as int32, or as probabilities if images
// are mixed. It allocates nothing.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if int(b.Split) >= len(d.splits) || d.splits[b.Split] == nil {
		return errNotOpen
	}
	s, n, each := d.splits[b.Split], len(b.Indices), d.more.TargetSpec(len(classNames)).Bytes()
	if len(b.Input) != n*imageBytes*4 || len(b.Target) != n*each {
		return fmt.Errorf("cifar10: %d samples need %d and %d bytes, the batch has %d and %d", n, n*imageBytes*4, n*each, len(b.Input), len(b.Target))
	}
	input := tensor.View[float32](b.Input)
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < 0 || index >= int64(s.n) {
			return fmt.Errorf("cifar10: index %d is out of range for %d samples", index, s.n)
		}
		out := input[i*imageBytes : (i+1)*imageBytes]
		read := vision.Sample{Index: index, Class: d.sample(b, out, index), Planes: out, Partner: d.partner, Width: side, Height: side}
		if err := d.more.Target(b, b.Target[i*each:(i+1)*each], read, s.n, func(other int64) (int32, error) { return d.sample(b, d.partner, other), nil }); err != nil {
			return err
		}
	}
	return nil
}

// sample writes an image and returns its class.
func (d *Dataset) sample(b *sdk.Batch, out []float32, index int64) (class int32) {
	var drawn [imageBytes]byte
	image, label := d.splits[b.Split].sample(int(index), &drawn)
	training := b.Split == sdk.Train && !b.NoAugment
	v := view{x: pad, y: pad}
	if d.augment && training {
		v = randomView(b.Seed, b.Epoch, index)
	}
	if !training || !d.more.Pixels() {
		v.write(out, image, d.levels)
	} else {
		for c, p := range d.image.Planes {
			v.cut((*[plane]byte)(p), image[c*plane:][:plane])
		}
		d.more.Image(d.image, b.Seed, b.Epoch, index)
		for c, p := range d.image.Planes {
			d.levels[c].Convert(out[c*plane:], p)
		}
	}
	if training {
		d.more.Erase(out, side, side, b.Seed, b.Epoch, index)
	}
	return int32(label)
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
