package imagefolder

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// Values of the options augment and corrupt.
const (
	augmentNone     = "none"
	augmentStandard = "standard"
	corruptError    = "error"
	corruptSkip     = "skip"
)

// maxSide bounds the option size: a batch of images of this size takes a gigabyte.
const maxSide = 4096

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	one, none, largest, most := 1.0, 0.0, float64(maxSide), 1024.0
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    "imagefolder",
		Version: "1.0.0",
		Summary: "JPEG and PNG images in one folder for each class, like ImageNet",
		Options: slices.Concat([]sdk.Option{
			{Name: "root", Type: sdk.String, Default: "data/imagenet", Doc: "Folder with the folders of the two splits."},
			{Name: "train", Type: sdk.String, Default: "train", Doc: "Folder of the training set, below root; its folders are the classes."},
			{Name: "val", Type: sdk.String, Default: "val", Doc: "Folder of the evaluation set, below root; without it there is no evaluation."},
			{Name: "size", Type: sdk.Int, Default: int64(224), Min: &one, Max: &largest, Unit: "pixels", Doc: "Width and height of the images passed to the model."},
			{Name: "resize", Type: sdk.Int, Min: &one, Max: &largest, Unit: "pixels", Doc: "Evaluation: length to which the short side is scaled before the centre crop. Default: size · 256/224."},
			{Name: "augment", Type: sdk.String, Default: augmentStandard, Enum: []string{augmentNone, augmentStandard}, Doc: "Training augmentation: none (as in evaluation), or a scaled random crop and a random flip."},
			{Name: "scale", Type: sdk.FloatList, Default: []float64{0.08, 1}, Min: &none, Max: &one, Doc: "Smallest and largest share of an image's area that a random crop covers."},
			{Name: "ratio", Type: sdk.FloatList, Default: []float64{3.0 / 4, 4.0 / 3}, Min: &none, Doc: "Smallest and largest width / height of a random crop."},
			{Name: "flip", Type: sdk.Boolean, Default: true, Doc: "Mirror half of the random crops."},
			{Name: "workers", Type: sdk.Int, Min: &one, Max: &most, Unit: "goroutines", Doc: "Images decoded concurrently. Default: GOMAXPROCS of the plugin."},
			{Name: "corrupt", Type: sdk.String, Default: corruptError, Enum: []string{corruptError, corruptSkip}, Doc: "What happens if an image cannot be decoded: the run ends, or the next good image is used and a warning counts it."},
		}, vision.AugmentOptions(), vision.Options(list(vision.ImageNet.Mean), list(vision.ImageNet.Std), " Default: ImageNet's.")),
	}
}

func list(v [vision.Channels]float32) (out []float64) {
	for _, x := range v {
		out = append(out, math.Round(float64(x)*1000)/1000)
	}
	return out
}

// settings are the options, checked.
type settings struct {
	root    string
	splits  [2]string // folder below root, by sdk.Split
	size    int
	resize  int
	augment bool
	crop    randomCrop
	workers int
	skip    bool
	more    vision.Augment // after crop and flip
	norm    vision.Normalization
}

func (s *settings) folder(split sdk.Split) string { return filepath.Join(s.root, s.splits[split]) }

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		root: o.String("root"), splits: [2]string{sdk.Train: o.String("train"), sdk.Test: o.String("val")},
		size: int(o.Int("size")), resize: int(o.Int("resize")),
		augment: o.String("augment") == augmentStandard,
		crop:    randomCrop{scale: span(&l, o, "scale"), ratio: span(&l, o, "ratio"), flip: o.Bool("flip")},
		workers: int(o.Int("workers")), skip: o.String("corrupt") == corruptSkip,
		more: vision.ParseAugment(&l, o),
		norm: vision.ParseNormalization(&l, o),
	}
	if s.workers == 0 {
		s.workers = runtime.GOMAXPROCS(0)
	}
	if s.resize == 0 {
		s.resize = (s.size*256 + 112) / 224
	}
	if s.resize < s.size {
		l.Addf("resize", "make it at least size", "%d is less than size, %d", s.resize, s.size)
	}
	for i, key := range []string{"train", "val"} {
		if s.splits[i] == "" || s.splits[i] == s.splits[1-i] {
			l.Addf(key, "give a separate folder below root", "%q is not a separate folder for this split", s.splits[i])
		}
	}
	if s.root == "" {
		l.Addf("root", "give the folder that contains the folders train and val", "is empty")
	}
	return s, l.Err()
}

// span reads a list of two positive numbers in order.
func span(l *usererr.List, o sdk.Options, name string) (s [2]float64) {
	v := o.Floats(name)
	if len(v) != 2 || !(v[0] > 0) || !(v[1] >= v[0]) {
		l.Addf(name, "write [smallest, largest]", "%v is not a list of two positive numbers, smallest first", v)
		return s
	}
	return [2]float64{v[0], v[1]}
}
