package cifar10

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/imagefolder"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return imagefolder.Extensions() }

// Read implements [sdk.DatasetReader]. Images of other sizes are scaled to 32 pixels and cut to a square.
func (d *Dataset) Read(o sdk.Options, path string) ([]byte, error) {
	s, err := parseSettings(o)
	if err != nil {
		return nil, err
	}
	pixels, err := imagefolder.ReadSquare(d.fs, path, side, side)
	if err != nil {
		return nil, err
	}
	out := tensor.Aligned(4 * vision.Channels * side * side)
	s.norm.Levels().Planes(tensor.View[float32](out), pixels)
	return out, nil
}

var _ sdk.DatasetReader = (*Dataset)(nil)
