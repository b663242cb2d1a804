package mnist

import (
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/source"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// crop says what standard augmentation is.
func (v variant) crop() string {
	if v.flip {
		return "a random crop with a border of 4 pixels and a random flip."
	}
	return "a random crop with a border of 4 pixels."
}

func (v variant) texts() source.Texts {
	return source.Texts{
		Home:     v.home,
		Files:    "Folder with the four IDX files, gzip or not, flat or as torchvision keeps them.",
		Download: "Download files that neither root nor $" + source.Env + " has;",
		Mirrors:  v.sites,
		Timeout:  "10m",
		Drawn:    "digits",
	}
}

// Info describes the data set and its options.
func (v variant) Info() sdk.Info {
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    v.name,
		Version: "1.0.0",
		Summary: v.title + ": 60,000 + 10,000 grey images of 28×28 pixels in ten classes",
		Options: slices.Concat(source.Options(v.texts()), []sdk.Option{
			{Name: "cache", Type: sdk.Boolean, Default: true, Doc: "Keep decompressed copies of .gz files in the user's cache folder: the next run starts faster."},
			vision.StandardAugment(v.crop()),
			{Name: "mean", Type: sdk.FloatList, Doc: "One value, subtracted from pixel/255; 0.1307 is usual for MNIST. Default: 0."},
			{Name: "std", Type: sdk.FloatList, Doc: "One value, by which the result is divided after mean is subtracted; 0.3081 is usual for MNIST. Default: 1."},
		}, vision.AugmentOptions(), source.SampleOptions()),
	}
}

// settings are the options, checked.
type settings struct {
	source.Settings
	cache     bool
	augment   bool // crop and, of clothes, flip
	more      vision.Augment
	mean, std float32
}

func (v variant) parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		Settings: source.Parse(&l, o, v.texts()),
		cache:    o.Bool("cache"),
		augment:  vision.Standard(o),
		more:     vision.ParseAugment(&l, o),
		mean:     single(&l, o, "mean", 0),
		std:      single(&l, o, "std", 1),
	}
	s.more.CheckGrey(&l)
	if s.std == 0 {
		l.Addf("std", "give the standard deviation of the pixels, such as [0.3081]", "0 would divide by zero")
	}
	return s, l.Err()
}

// single reads a per-channel list; grey images have one channel.
func single(l *usererr.List, o sdk.Options, name string, absent float32) float32 {
	if !o.Has(name) {
		return absent
	}
	v := o.Floats(name)
	if len(v) != 1 {
		l.Addf(name, "the images have one channel: write one number in brackets", "has %d values", len(v))
		return absent
	}
	return float32(v[0])
}
