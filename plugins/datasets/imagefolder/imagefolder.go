package imagefolder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/afero"
	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// SourceFiles is the value of DatasetSpec.Source.
const SourceFiles = "files"

// Dataset is one open data set. The zero value is not usable; see [New].
type Dataset struct {
	fs  afero.Fs
	log *slog.Logger

	settings
	list     *listing // nil while it is not open
	levels   *vision.Levels
	damaged  *damaged
	partners []int64      // training samples that others are mixed with; nil: all
	idle     chan *worker // idle workers; their number bounds concurrent decoding
}

// New returns a data set of image folders in fs.
func New(fs afero.Fs) *Dataset { return &Dataset{fs: fs} }

// Open lists the images.
func (d *Dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	o, err := parseSettings(req.Options)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	log := req.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	list, err := readListing(ctx, d.fs, o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	if list.missingVal && req.LocalRank == 0 {
		log.Warn("there is no folder of images to evaluate on; dataset.validation holds training images out", "folder", o.folder(sdk.Test))
	}
	d.settings, d.list, d.levels, d.log = o, list, o.norm.Levels(), log
	d.damaged = &damaged{log: log}
	if d.partners, err = o.more.Partners(req, d.TrainClasses()); err != nil {
		return sdk.DatasetSpec{}, err
	}
	d.idle = make(chan *worker, o.workers)
	for range o.workers {
		w := &worker{}
		if o.more.Pixels() {
			w.image = vision.NewImage(o.size, o.size, vision.Channels)
		}
		if o.more.Mixes() {
			w.partner = make([]float32, vision.Channels*o.size*o.size)
		}
		d.idle <- w
	}
	spec := list.spec(o)
	spec.Source, spec.Fingerprint = SourceFiles, list.fingerprint()
	return spec, nil
}

// Describe lists the folders, if they exist: the number of classes and samples
// follows only from their content.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	s, err := parseSettings(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	list, err := readListing(context.Background(), d.fs, s)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	return list.spec(s), nil
}

// Locate looks for the folder of the training images.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := parseSettings(o)
	if err != nil {
		return err
	}
	_, err = folders(d.fs, s.folder(sdk.Train))
	return err
}

func (l *listing) spec(o settings) sdk.DatasetSpec {
	return sdk.DatasetSpec{
		Input:   tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{vision.Channels, o.size, o.size}},
		Target:  o.more.TargetSpec(len(l.classes)),
		Classes: len(l.classes), ClassNames: l.classes,
		TrainSamples: l.samples[sdk.Train].len(), TestSamples: l.samples[sdk.Test].len(),
	}
}

var errNotOpen = errors.New("imagefolder: the data set is not open")

// Fill decodes the images of the batch, concurrently on all workers. An image that
// cannot be decoded is an error or is replaced, depending on the option corrupt; a
// file that cannot be read is always an error.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if d.list == nil || int(b.Split) >= len(d.list.samples) {
		return errNotOpen
	}
	n, elems, each := len(b.Indices), vision.Channels*d.size*d.size, d.more.TargetSpec(len(d.list.classes)).Bytes()
	if len(b.Input) != n*elems*4 || len(b.Target) != n*each {
		return fmt.Errorf("imagefolder: %d samples need %d and %d bytes, the batch has %d and %d", n, n*elems*4, n*each, len(b.Input), len(b.Target))
	}
	input := tensor.View[float32](b.Input)
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		var w *worker
		select {
		case w = <-d.idle:
		case <-ctx.Done():
			if err := group.Wait(); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
		group.Go(func() error {
			defer func() { d.idle <- w }()
			out := input[i*elems : (i+1)*elems]
			class, err := d.sample(ctx, w, b, b.Indices[i], out)
			if err != nil {
				return err
			}
			read := vision.Sample{Index: b.Indices[i], Class: class, Planes: out, Partner: w.partner, Width: d.size, Height: d.size}
			return d.more.Target(b, b.Target[i*each:(i+1)*each], read, d.partners, d.list.samples[sdk.Train].len(), func(other int64) (int32, error) {
				return d.sample(ctx, w, b, other, w.partner)
			})
		})
	}
	return group.Wait()
}

// sample writes one image and returns its class.
func (d *Dataset) sample(ctx context.Context, w *worker, b *sdk.Batch, index int64, out []float32) (class int32, err error) {
	samples := &d.list.samples[b.Split]
	if index < 0 || index >= int64(samples.len()) {
		return 0, fmt.Errorf("imagefolder: index %d is out of range for %d samples", index, samples.len())
	}
	used, img, err := d.decode(ctx, w, b.Split, int(index))
	if err != nil {
		return 0, err
	}
	size := img.Bounds().Size()
	v := middle(size, d.size, d.resize)
	training := b.Split == sdk.Train && !b.NoAugment
	if d.augment && training {
		r := vision.NewSource(b.Seed, b.Epoch, index)
		v = d.crop.random(&r, size, d.size)
	}
	pixels := w.render(img, v)
	if training && d.more.Pixels() {
		w.image.Unpack(pixels)
		d.more.Image(w.image, b.Seed, b.Epoch, index)
		for c, p := range w.image.Planes {
			d.levels[c].Convert(out[c*len(p):], p)
		}
	} else {
		d.levels.Planes(out, pixels)
	}
	if training {
		d.more.Erase(out, d.size, d.size, b.Seed, b.Epoch, index)
	}
	return int32(samples.class(used)), nil
}

// TrainClasses returns the class of every training image.
func (d *Dataset) TrainClasses() []int32 {
	samples := &d.list.samples[sdk.Train]
	classes := make([]int32, 0, samples.len())
	for class, end := range samples.ends {
		for len(classes) < end {
			classes = append(classes, int32(class))
		}
	}
	return classes
}

// Close releases the listing. It may be called more than once.
func (d *Dataset) Close() error {
	d.list = nil
	return nil
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
)
