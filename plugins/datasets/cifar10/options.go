package cifar10

import (
	"net/url"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

const name = "cifar10"

// Values of the options fallback and augment.
const (
	fallbackError     = "error"
	fallbackGenerated = "generated"
	augmentNone       = "none"
	augmentStandard   = "standard"
)

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	positive := 1.0
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    name,
		Version: "1.0.0",
		Summary: "CIFAR-10: 50,000 + 10,000 colour images of 32×32 pixels in ten classes",
		Options: append([]sdk.Option{
			{Name: "root", Type: sdk.String, Default: "data/cifar10", Doc: "Folder with the six .bin files, flat or in " + folder + ", or with " + archive + "; downloads go there."},
			{Name: "download", Type: sdk.Boolean, Default: true, Doc: "Download the archive if neither root nor $" + dataEnv + " has the data; false never uses the network."},
			{Name: "mirrors", Type: sdk.StringList, Default: []string{site}, Doc: "Addresses to download from, best first; set it to use your own mirror."},
			{Name: "timeout", Type: sdk.Duration, Default: "30m", Doc: "Limit for the whole download, including the wait for another rank's download."},
			{Name: "fallback", Type: sdk.String, Default: fallbackError, Enum: []string{fallbackError, fallbackGenerated}, Doc: "Without data: fail, or train on shapes that the plugin draws."},
			{Name: "augment", Type: sdk.String, Default: augmentNone, Enum: []string{augmentNone, augmentStandard}, Doc: "Training augmentation: none, or a random crop with a border of 4 pixels and a random flip."},
			{Name: "train_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the training set. Default: all."},
			{Name: "test_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the test set. Default: all."},
		}, vision.Options(nil, nil, " Usual for CIFAR-10: [0.4914, 0.4822, 0.4465] and std = [0.2470, 0.2435, 0.2616]. Default: nothing.")...),
	}
}

// settings are the options, checked.
type settings struct {
	root     string
	download bool
	mirrors  []string
	timeout  time.Duration
	generate bool
	augment  bool
	norm     vision.Normalization
	samples  [2]int // by sdk.Split; 0 = all
}

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		root:     o.String("root"),
		download: o.Bool("download"),
		mirrors:  o.Strings("mirrors"),
		timeout:  o.Duration("timeout"),
		generate: o.String("fallback") == fallbackGenerated,
		augment:  o.String("augment") == augmentStandard,
		norm:     vision.ParseNormalization(&l, o),
		samples:  [2]int{int(o.Int("train_samples")), int(o.Int("test_samples"))},
	}
	if s.root == "" {
		l.Addf("root", "give the folder that has the files, or to which they are downloaded", "is empty")
	}
	if s.download && s.timeout <= 0 {
		l.Addf("timeout", `write it as "30m"`, "%v is not positive, so a download would have no time", s.timeout)
	}
	for _, m := range s.mirrors {
		if u, err := url.Parse(m); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			l.Addf("mirrors", "write a base address such as https://example.org/cifar/", "%q is not an http address", m)
		}
	}
	return s, l.Err()
}
