package mnist

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/idx"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// The values of DatasetSpec.Source.
const (
	SourceIDX       = "idx"       // existing files
	SourceDownload  = "download"  // files that this plugin downloaded, now or in an earlier run
	SourceGenerated = "generated" // digits drawn by package digits
)

// Dataset is one open data set. The zero value is not usable; see [New].
type Dataset struct {
	variant
	fs     afero.Fs
	getenv func(string) string
	caches func() (string, error) // the user's folder for caches

	cache  *idx.Cache
	splits [2]*split // by sdk.Split
	levels *image.Levels
}

// New returns MNIST, with files in fs.
func New(fs afero.Fs) *Dataset {
	return &Dataset{variant: mnist, fs: fs, getenv: os.Getenv, caches: os.UserCacheDir}
}

// NewFashion returns Fashion-MNIST, with files in fs.
func NewFashion(fs afero.Fs) *Dataset {
	return &Dataset{variant: fashion, fs: fs, getenv: os.Getenv, caches: os.UserCacheDir}
}

// Open finds and verifies the data, and downloads it if needed.
func (d *Dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	o, err := d.parseSettings(req.Options)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.cache = d.cacheFor(o)
	look := d.search(o)
	look.LogTo(req)
	got, err := source.Find(ctx, &look.Search, look)
	if err != nil {
		return sdk.DatasetSpec{}, fmt.Errorf("%s: %w", d.name, err)
	}
	if err := got.limit(o); err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.splits, d.levels = got.splits, image.NewLevels(o.mean, o.std)
	return d.spec(got), nil
}

func (d *Dataset) spec(got *found) sdk.DatasetSpec {
	return sdk.DatasetSpec{
		Source:       got.source,
		Input:        inputSpec(),
		Target:       tensor.Spec{DType: tensor.I32},
		Classes:      len(got.classes),
		ClassNames:   got.classes,
		TrainSamples: got.splits[sdk.Train].samples(),
		TestSamples:  got.splits[sdk.Test].samples(),
		Fingerprint:  got.fingerprint(),
		Notice:       got.notice,
	}
}

var errNotOpen = errors.New("the data set is not open")

// Fill writes images as float32 [1, 28, 28] and labels as int32. It allocates
// nothing.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if int(b.Split) >= len(d.splits) || d.splits[b.Split] == nil {
		return errNotOpen
	}
	s := d.splits[b.Split]
	n := len(b.Indices)
	if len(b.Input) != n*imageBytes*4 || len(b.Target) != n*4 {
		return fmt.Errorf("%s: %d samples need %d and %d bytes, the batch has %d and %d", d.name, n, n*imageBytes*4, n*4, len(b.Input), len(b.Target))
	}
	input, target := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for i, index := range b.Indices {
		if index < 0 || index >= int64(s.samples()) {
			return fmt.Errorf("%s: index %d is out of range for %d samples", d.name, index, s.samples())
		}
		d.levels.Convert(input[i*imageBytes:(i+1)*imageBytes], s.image(int(index)))
		target[i] = int32(s.labels[index])
	}
	return nil
}

// TrainClasses returns the label of every training image.
func (d *Dataset) TrainClasses() []int32 {
	labels := d.splits[sdk.Train].labels
	classes := make([]int32, len(labels))
	for i, l := range labels {
		classes[i] = int32(l)
	}
	return classes
}

// cacheFor returns a cache in the user's cache folder; without one, nothing is cached.
func (d *Dataset) cacheFor(o settings) *idx.Cache {
	c := &idx.Cache{Fs: d.fs, Min: 1 << 20}
	if dir, err := d.caches(); err == nil && o.cache {
		c.Dir = filepath.Join(dir, "trainctl", "idx")
	}
	return c
}

// Close releases the memory. It may be called more than once.
func (d *Dataset) Close() error {
	if d.cache != nil {
		d.cache.Wait()
	}
	d.splits = [2]*split{}
	return nil
}

var _ sdk.Dataset = (*Dataset)(nil)
