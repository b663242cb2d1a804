package cifar10

import "github.com/trainctl/trainctl/plugins/datasets/vision"

// pad is the black border that a crop may reach into, on each side.
const pad = 4

// view is the part of the padded image that is seen, by its upper left corner;
// (pad, pad) is the image itself.
type view struct {
	x, y int
	flip bool // left and right change places, after the crop
}

// randomView is the usual augmentation for CIFAR-10 (He et al., 2015): a random
// crop of the padded image, mirrored half of the time.
func randomView(seed uint64, epoch int, index int64) view {
	r := vision.NewSource(seed, epoch, index)
	return view{x: r.Below(2*pad + 1), y: r.Below(2*pad + 1), flip: r.Coin()}
}

// write turns the planes of an image into floats as they are seen. The border
// is black before it is normalised, as torchvision pads images before ToTensor.
func (v view) write(dst []float32, image []byte, levels *vision.Levels) {
	for c := range vision.Channels {
		level := &levels[c]
		for y := range side {
			out := dst[(c*side+y)*side:][:side]
			from := y + v.y - pad
			if from < 0 || from >= side {
				fill(out, level[0])
				continue
			}
			v.row(out, image[(c*side+from)*side:][:side], level)
		}
	}
}

func (v view) row(out []float32, in []byte, level *[256]float32) {
	shift := v.x - pad
	lo, hi := max(0, -shift), min(side, side-shift)
	fill(out[:lo], level[0])
	for x, p := range in[lo+shift : hi+shift] {
		out[lo+x] = level[p]
	}
	fill(out[hi:], level[0])
	if v.flip {
		for i, j := 0, side-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
}

func fill(out []float32, v float32) {
	for i := range out {
		out[i] = v
	}
}
