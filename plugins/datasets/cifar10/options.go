package cifar10

import (
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/source"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

const name = "cifar10"

var texts = source.Texts{
	Home:     "data/cifar10",
	Files:    "Folder with the six .bin files, flat or in " + folder + ", or with " + archive + ".",
	Download: "Download the archive if neither root nor $" + source.Env + " has the data;",
	Mirrors:  []string{site},
	Timeout:  "30m",
	Drawn:    "shapes",
}

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    name,
		Version: "1.0.0",
		Summary: "CIFAR-10: 50,000 + 10,000 colour images of 32×32 pixels in ten classes",
		Options: slices.Concat(source.Options(texts), []sdk.Option{
			vision.StandardAugment("a random crop with a border of 4 pixels and a random flip."),
		}, vision.AugmentOptions(), source.SampleOptions(), vision.Options(nil, nil, " Usual for CIFAR-10: [0.4914, 0.4822, 0.4465] and std = [0.2470, 0.2435, 0.2616]. Default: nothing.")),
	}
}

// settings are the options, checked.
type settings struct {
	source.Settings
	augment bool // crop and flip
	more    vision.Augment
	norm    vision.Normalization
}

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		Settings: source.Parse(&l, o, texts),
		augment:  vision.Standard(o),
		more:     vision.ParseAugment(&l, o),
		norm:     vision.ParseNormalization(&l, o),
	}
	return s, l.Err()
}
