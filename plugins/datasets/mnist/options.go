package mnist

import (
	"net/url"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// Info describes the data set and its options.
func (v variant) Info() sdk.Info {
	positive := 1.0
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    v.name,
		Version: "1.0.0",
		Summary: v.title + ": 60,000 + 10,000 grey images of 28×28 pixels in ten classes",
		Options: []sdk.Option{
			{Name: "root", Type: sdk.String, Default: v.home, Doc: "Folder with the four IDX files, gzip or not, flat or as torchvision keeps them; downloads go there."},
			{Name: "download", Type: sdk.Boolean, Default: true, Doc: "Download files that neither root nor $" + dataEnv + " has; false never uses the network."},
			{Name: "mirrors", Type: sdk.StringList, Default: v.sites, Doc: "Addresses to download from, best first; set it to use your own mirror."},
			{Name: "timeout", Type: sdk.Duration, Default: "10m", Doc: "Limit for the whole download, including the wait for another rank's download."},
			{Name: "fallback", Type: sdk.String, Default: fallbackError, Enum: []string{fallbackError, fallbackGenerated}, Doc: "Without data: fail, or train on digits that the plugin draws."},
			{Name: "cache", Type: sdk.Boolean, Default: true, Doc: "Keep decompressed copies of .gz files in the user's cache folder: the next run starts faster."},
			{Name: "mean", Type: sdk.FloatList, Doc: "One value, subtracted from pixel/255; 0.1307 is usual for MNIST. Default: 0."},
			{Name: "std", Type: sdk.FloatList, Doc: "One value, by which the result is divided after mean is subtracted; 0.3081 is usual for MNIST. Default: 1."},
			{Name: "train_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the training set. Default: all."},
			{Name: "test_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the test set. Default: all."},
		},
	}
}

const (
	fallbackError     = "error"
	fallbackGenerated = "generated"
)

// settings are the options, checked.
type settings struct {
	root      string
	download  bool
	mirrors   []string
	timeout   time.Duration
	generate  bool
	cache     bool
	mean, std float32
	samples   [2]int // by sdk.Split; 0 = all
}

func parseSettings(o sdk.Options) (settings, error) {
	var l usererr.List
	s := settings{
		root:     o.String("root"),
		download: o.Bool("download"),
		mirrors:  o.Strings("mirrors"),
		timeout:  o.Duration("timeout"),
		generate: o.String("fallback") == fallbackGenerated,
		cache:    o.Bool("cache"),
		mean:     single(&l, o, "mean", 0),
		std:      single(&l, o, "std", 1),
		samples:  [2]int{int(o.Int("train_samples")), int(o.Int("test_samples"))},
	}
	if s.root == "" {
		l.Addf("root", "give the folder that has the files, or to which they are downloaded", "is empty")
	}
	if s.std == 0 {
		l.Addf("std", "give the standard deviation of the pixels, such as [0.3081]", "0 would divide by zero")
	}
	if s.download && s.timeout <= 0 {
		l.Addf("timeout", `write it as "10m"`, "%v is not positive, so a download would have no time", s.timeout)
	}
	for _, m := range s.mirrors {
		if u, err := url.Parse(m); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			l.Addf("mirrors", "write a base address such as https://example.org/mnist/", "%q is not an http address", m)
		}
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
