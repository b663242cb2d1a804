package imagefolder

import (
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// Extensions are those of images.
func Extensions() []string { return []string{".jpeg", ".jpg", ".png"} }

// ReadSquare reads a JPEG or PNG image, scales its short side to short pixels and cuts side×side
// pixels from the middle, as torchvision's Resize and CenterCrop. Pixels are those of
// core/engine/kernel/image.
func ReadSquare(fsys afero.Fs, path string, side, short int) ([]byte, error) {
	var w worker
	img, err := w.load(fsys, path)
	if err != nil {
		return nil, err
	}
	return slices.Clone(w.render(img, middle(img.Bounds().Size(), side, short))), nil
}

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return Extensions() }

// Read implements [sdk.DatasetReader].
func (d *Dataset) Read(o sdk.Options, path string) ([]byte, error) {
	s, err := parseSettings(o)
	if err != nil {
		return nil, err
	}
	pixels, err := ReadSquare(d.fs, path, s.size, s.resize)
	if err != nil {
		return nil, err
	}
	out := tensor.Aligned(4 * vision.Channels * s.size * s.size)
	s.norm.Levels().Planes(tensor.View[float32](out), pixels)
	return out, nil
}

var _ sdk.DatasetReader = (*Dataset)(nil)
