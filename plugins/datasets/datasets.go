package datasets

import (
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/cifar10"
	"github.com/trainctl/trainctl/plugins/datasets/csv"
	"github.com/trainctl/trainctl/plugins/datasets/imagefolder"
	"github.com/trainctl/trainctl/plugins/datasets/mnist"
	"github.com/trainctl/trainctl/plugins/datasets/numpy"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
	"github.com/trainctl/trainctl/plugins/datasets/text"
)

// Builtin is a data set and its name.
type Builtin struct {
	Name string
	New  func() sdk.Dataset
}

// Builtins are all of them, by name, on the given file system.
func Builtins(fs afero.Fs) []Builtin {
	return []Builtin{
		{"cifar10", func() sdk.Dataset { return cifar10.New(fs) }},
		{"csv", func() sdk.Dataset { return csv.New(fs) }},
		{"fashion-mnist", func() sdk.Dataset { return mnist.NewFashion(fs) }},
		{"imagefolder", func() sdk.Dataset { return imagefolder.New(fs) }},
		{"mnist", func() sdk.Dataset { return mnist.New(fs) }},
		{"numpy", func() sdk.Dataset { return numpy.New(fs) }},
		{"synthetic", func() sdk.Dataset { return synthetic.New() }},
		{"text", func() sdk.Dataset { return text.New(fs) }},
	}
}
