package cifar10

import (
	"encoding/binary"
	"math/bits"

	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// pad is the width of the black border, on each side, that a crop may include.
const pad = 4

// view is the crop of the padded image, given by its upper left corner; (pad, pad)
// is the image itself.
type view struct {
	x, y int
	flip bool // mirror left and right, after the crop
}

// randomView is the usual augmentation for CIFAR-10 (He et al., 2015): a random
// crop of the padded image, mirrored half of the time.
func randomView(seed uint64, epoch int, index int64) view {
	r := vision.NewSource(seed, epoch, index)
	return view{x: r.Below(2*pad + 1), y: r.Below(2*pad + 1), flip: r.Coin()}
}

// plane is one channel of an image.
const plane = side * side

// write converts the crop of an image to floats, plane by plane. The border is
// black before normalisation, since torchvision pads images before ToTensor.
func (v view) write(dst []float32, image []byte, levels *vision.Levels) {
	var seen [plane]byte
	for c := range vision.Channels {
		in := image[c*plane:][:plane]
		if v != (view{x: pad, y: pad}) {
			v.cut(&seen, in)
			in = seen[:]
		}
		levels[c].Convert(dst[c*plane:], in)
	}
}

// cut copies the crop from a plane.
func (v view) cut(out *[plane]byte, in []byte) {
	*out = [plane]byte{}
	shift := v.x - pad
	lo, hi := max(0, -shift), min(side, side-shift)
	for y := max(0, pad-v.y); y < min(side, side+pad-v.y); y++ {
		row := out[y*side:][:side]
		copy(row[lo:hi], in[(y+v.y-pad)*side+lo+shift:])
		if v.flip {
			mirror(row)
		}
	}
}

// mirror reverses a row, eight pixels at a time.
func mirror(row []byte) {
	le := binary.LittleEndian
	for i, j := 0, side-8; i < j; i, j = i+8, j-8 {
		a, b := le.Uint64(row[i:]), le.Uint64(row[j:])
		le.PutUint64(row[i:], bits.ReverseBytes64(b))
		le.PutUint64(row[j:], bits.ReverseBytes64(a))
	}
}
