package mnist

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/digits"
	"github.com/trainctl/trainctl/plugins/datasets/idx"
	"github.com/trainctl/trainctl/plugins/datasets/source"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
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

	cache         *idx.Cache
	splits        [2]*split // by sdk.Split
	*vision.Small           // nil while it is not open
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
	d.splits, d.Small = got.splits, d.images(&o, got.splits)
	if d.Partners, err = o.more.Partners(req, d.TrainClasses()); err != nil {
		return sdk.DatasetSpec{}, err
	}
	return d.spec(got), nil
}

// store is the samples of both splits.
type store [2]*split

// Samples implements [vision.Store].
func (s store) Samples(k sdk.Split) int { return s[k].samples() }

// Sample implements [vision.Store].
func (s store) Sample(k sdk.Split, index int, _ []byte) (planes []byte, class int32) {
	return s[k].image(index), int32(s[k].labels[index])
}

// images serves samples with some settings.
func (v variant) images(o *settings, splits [2]*split) *vision.Small {
	return &vision.Small{
		Name: v.name, Store: store(splits), Side: digits.Size, Levels: []*image.Levels{image.NewLevels(o.mean, o.std)}, Classes: len(v.classes),
		Crop: o.augment, Flip: v.flip, More: o.more,
	}
}

func (d *Dataset) spec(got *found) sdk.DatasetSpec {
	in, target := d.Small.Spec()
	return sdk.DatasetSpec{
		Source:       got.source,
		Input:        in,
		Target:       target,
		Classes:      len(got.classes),
		ClassNames:   got.classes,
		TrainSamples: got.splits[sdk.Train].samples(),
		TestSamples:  got.splits[sdk.Test].samples(),
		Fingerprint:  got.fingerprint(),
		Notice:       got.notice,
	}
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
	d.splits, d.Small = [2]*split{}, nil
	return nil
}

var _ sdk.Dataset = (*Dataset)(nil)
