package source

import (
	"net/url"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// Env is the environment variable that names a folder of data sets.
const Env = "TRAINCTL_DATA"

// The values of the option fallback.
const (
	FallbackError     = "error"
	FallbackGenerated = "generated"
)

// Texts are the defaults and descriptions of the shared options for one data set.
type Texts struct {
	Home     string   // default of root
	Files    string   // doc of root: which files, and their layout
	Download string   // doc of download
	Mirrors  []string // default
	Timeout  string   // default
	Drawn    string   // what is drawn without data, such as "digits"
}

// Options are root, download, mirrors, timeout and fallback.
func Options(t Texts) []sdk.Option {
	return []sdk.Option{
		{Name: "root", Type: sdk.String, Default: t.Home, Doc: t.Files + " Downloads go there."},
		{Name: "download", Type: sdk.Boolean, Default: true, Doc: t.Download + " false never uses the network."},
		{Name: "mirrors", Type: sdk.StringList, Default: t.Mirrors, Doc: "Addresses to download from, best first; set it to use your own mirror."},
		{Name: "timeout", Type: sdk.Duration, Default: t.Timeout, Doc: "Limit for the whole download, including the wait for another rank's download."},
		{Name: "fallback", Type: sdk.String, Default: FallbackError, Enum: []string{FallbackError, FallbackGenerated}, Doc: "Without data: fail, or train on " + t.Drawn + " that the plugin draws."},
	}
}

// SampleOptions are train_samples and test_samples.
func SampleOptions() []sdk.Option {
	positive := 1.0
	return []sdk.Option{
		{Name: "train_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the training set. Default: all."},
		{Name: "test_samples", Type: sdk.Int, Unit: "samples", Min: &positive, Doc: "Use only the first samples of the test set. Default: all."},
	}
}

// Settings are the shared options, checked.
type Settings struct {
	Root     string
	Download bool
	Mirrors  []string
	Timeout  time.Duration
	Generate bool
	Samples  [2]int // by sdk.Split; 0 = all
}

// Parse reads the shared options and adds what is wrong with them to l.
func Parse(l *usererr.List, o sdk.Options, t Texts) Settings {
	s := Settings{
		Root: o.String("root"), Download: o.Bool("download"), Mirrors: o.Strings("mirrors"), Timeout: o.Duration("timeout"),
		Generate: o.String("fallback") == FallbackGenerated,
		Samples:  [2]int{int(o.Int("train_samples")), int(o.Int("test_samples"))},
	}
	if s.Root == "" {
		l.Addf("root", "give the folder that has the files, or to which they are downloaded", "is empty")
	}
	if s.Download && s.Timeout <= 0 {
		l.Addf("timeout", `write it as "`+t.Timeout+`"`, "%v is not positive, so a download would have no time", s.Timeout)
	}
	for _, m := range s.Mirrors {
		if u, err := url.Parse(m); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			l.Addf("mirrors", "write a base address such as https://example.org/data/", "%q is not an http address", m)
		}
	}
	return s
}
