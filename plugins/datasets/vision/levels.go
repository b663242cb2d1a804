package vision

import (
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
)

// Channels of an image: red, green, blue.
const Channels = 3

// Levels maps each of the 256 values of a pixel to a float, by channel.
type Levels [Channels]*image.Levels

// Normalization holds the mean and standard deviation of each channel, in
// units of pixel/255.
type Normalization struct{ Mean, Std [Channels]float32 }

// ImageNet is the normalisation of models trained on ImageNet (torchvision's references/classification/presets.py).
var ImageNet = Normalization{Mean: [Channels]float32{0.485, 0.456, 0.406}, Std: [Channels]float32{0.229, 0.224, 0.225}}

// Options returns the options mean and std for a data set to publish; defaults are
// nil or lists of floats.
func Options(mean, std any, usual string) []sdk.Option {
	return []sdk.Option{
		{Name: "mean", Type: sdk.FloatList, Default: mean, Doc: "Subtracted from pixel/255: one value, or one each for red, green and blue." + usual},
		{Name: "std", Type: sdk.FloatList, Default: std, Doc: "Divisor after mean is subtracted: one value, or one each for red, green and blue."},
	}
}

// ParseNormalization reads mean and std, which default to 0 and 1.
func ParseNormalization(l *usererr.List, o sdk.Options) Normalization {
	n := Normalization{Mean: perChannel(l, o, "mean", 0), Std: perChannel(l, o, "std", 1)}
	for _, s := range n.Std {
		if !(s > 0) {
			l.Addf("std", "give the standard deviations of the channels, such as [0.229, 0.224, 0.225]", "%v is not positive", s)
			break
		}
	}
	return n
}

func perChannel(l *usererr.List, o sdk.Options, name string, absent float32) (out [Channels]float32) {
	v := o.Floats(name)
	switch {
	case !o.Has(name):
		v = []float64{float64(absent)}
	case len(v) != 1 && len(v) != Channels:
		l.Addf(name, "give one number for all channels, or three", "has %d values", len(v))
		v = []float64{float64(absent)}
	}
	for c := range out {
		out[c] = float32(v[c%len(v)])
	}
	return out
}

// Levels returns the table of the normalisation.
func (n Normalization) Levels() *Levels {
	t := new(Levels)
	for c := range t {
		t[c] = image.NewLevels(n.Mean[c], n.Std[c])
	}
	return t
}

// Planes writes an image, row by row of pixels as package kernel has them, as
// three planes. dst has three elements for each pixel.
func (t *Levels) Planes(dst []float32, pixels []byte) {
	n := len(pixels) / image.PixelBytes
	for c, l := range t {
		l.Channel(dst[c*n:(c+1)*n], pixels, c)
	}
}
