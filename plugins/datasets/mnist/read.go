package mnist

import (
	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/imagefolder"
)

// side is the width and height of an image.
const side = 28

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return imagefolder.Extensions() }

// Read implements [sdk.DatasetReader]. Images are white on black; of other sizes, they are scaled to 28
// pixels and cut to a square. Colours become grey with the weights of ITU-R BT.601, as in Pillow.
func (d *Dataset) Read(o sdk.Options, path string) ([]byte, error) {
	s, err := d.parseSettings(o)
	if err != nil {
		return nil, err
	}
	pixels, err := imagefolder.ReadSquare(d.fs, path, side, side)
	if err != nil {
		return nil, err
	}
	grey := make([]byte, imageBytes)
	for i := range grey {
		p := pixels[i*image.PixelBytes:]
		grey[i] = byte((int(p[0])*19595 + int(p[1])*38470 + int(p[2])*7471 + 1<<15) >> 16)
	}
	out := tensor.Aligned(4 * imageBytes)
	image.NewLevels(s.mean, s.std).Convert(tensor.View[float32](out), grey)
	return out, nil
}

var _ sdk.DatasetReader = (*Dataset)(nil)
