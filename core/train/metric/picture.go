package metric

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// MostPictures is how many of the worst samples have a picture or an excerpt.
const MostPictures = 64

const (
	leastSide = 4   // pixels: arrays with fewer rows or columns are not images
	mostSide  = 128 // pixels of a picture; larger images are reduced
)

// Pictures makes pictures of the samples of a data set.
type Pictures struct {
	channels, height, width int
	mean, std               []float64 // by channel
}

// NewPictures returns nil if samples are not images: float32 [1, height, width] or [3, height, width]. options are
// those of the data set; mean and std, lists of one number or of one for each channel, say how it normalises:
// (pixel/255 - mean)/std.
func NewPictures(input tensor.Spec, options sdk.Options) *Pictures {
	s := input.Shape
	if input.DType != tensor.F32 || len(s) != 3 || s[0] != 1 && s[0] != 3 || s[1] < leastSide || s[2] < leastSide {
		return nil
	}
	return &Pictures{channels: s[0], height: s[1], width: s[2], mean: perChannel(options.Floats("mean"), 0, s[0]), std: perChannel(options.Floats("std"), 1, s[0])}
}

// perChannel repeats one number for all channels. Lists of any other length are not understood and stand for absent.
func perChannel(given []float64, absent float64, channels int) []float64 {
	if len(given) != 1 && len(given) != channels {
		given = []float64{absent}
	}
	out := make([]float64, channels)
	for c := range out {
		out[c] = given[c%len(given)]
	}
	return out
}

// excerpt is how many numbers or tokens of a sample Excerpt shows.
const excerpt = 48

// Excerpt is the beginning of a sample as text: tokens or numbers in their order, or the text itself where
// tokens are bytes.
func Excerpt(spec *sdk.DatasetSpec, sample []byte) string {
	n := spec.Input.Shape.Elems()
	words := make([]string, 0, excerpt)
	for i := range min(n, excerpt) {
		switch v := sample[4*i:]; {
		case spec.Input.DType != tensor.I32:
			words = append(words, strconv.FormatFloat(float64(tensor.View[float32](v)[0]), 'g', 4, 32))
		case spec.Tokenizer == "bytes":
			words = append(words, string([]byte{byte(tensor.View[int32](v)[0])}))
		default:
			words = append(words, fmt.Sprint(tensor.View[int32](v)[0]))
		}
	}
	text := strings.Join(words, " ")
	if spec.Tokenizer == "bytes" {
		text = strings.ToValidUTF8(strings.Join(words, ""), "\uFFFD")
	}
	if n > excerpt {
		text += fmt.Sprintf(" … (%d more)", n-excerpt)
	}
	return text
}

// PNG returns the picture of one sample as the test split has it, at most 128 pixels wide and high. If values are
// outside of [0, 1] without the normalisation, black is the least and white the greatest of them.
func (p *Pictures) PNG(sample []byte) ([]byte, error) {
	values := tensor.View[float32](sample)
	if want := p.channels * p.height * p.width; len(values) != want {
		return nil, fmt.Errorf("picture of a sample: it has %d values, expected %d", len(values), want)
	}
	each := (max(p.height, p.width) + mostSide - 1) / mostSide // pixels of the image, in each direction, that become one
	bounds := image.Rect(0, 0, (p.width+each-1)/each, (p.height+each-1)/each)
	scale, shift := p.scale(values)
	at := func(channel, x, y int) byte {
		v := scale[channel]*p.block(values, channel, x*each, y*each, each) + shift[channel]
		return byte(math.Round(255 * min(max(v, 0), 1)))
	}
	var out bytes.Buffer
	if err := png.Encode(&out, p.draw(bounds, at)); err != nil {
		return nil, fmt.Errorf("picture of a sample: %w", err)
	}
	return out.Bytes(), nil
}

// draw makes the image whose channels have the levels at(channel, x, y).
func (p *Pictures) draw(bounds image.Rectangle, at func(channel, x, y int) byte) image.Image {
	width := bounds.Dx()
	if p.channels == 1 {
		m := image.NewGray(bounds)
		for i := range m.Pix {
			m.Pix[i] = at(0, i%width, i/width)
		}
		return m
	}
	m := image.NewNRGBA(bounds)
	for i := range m.Pix {
		m.Pix[i] = 255 // opaque
		if c, pixel := i%4, i/4; c < p.channels {
			m.Pix[i] = at(c, pixel%width, pixel/width)
		}
	}
	return m
}

// scale is the factor and the summand, by channel, that bring values to [0, 1]. Both are slices of their own.
func (p *Pictures) scale(values []float32) (factor, summand []float64) {
	factor, summand = slices.Clone(p.std), slices.Clone(p.mean)
	least, greatest := math.Inf(1), math.Inf(-1)
	for i, v := range values {
		c := i / (p.height * p.width)
		level := finite(v)*factor[c] + summand[c]
		least, greatest = min(least, level), max(greatest, level)
	}
	const rounding = 1e-3 // of the normalisation: less than a level
	if least >= greatest || least > -rounding && greatest < 1+rounding {
		return factor, summand
	}
	for c := range factor {
		factor[c] /= greatest - least
		summand[c] = (summand[c] - least) / (greatest - least)
	}
	return factor, summand
}

// finite replaces what is not finite by 0.
func finite(v float32) float64 {
	if v := float64(v); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// block is the mean of a square of pixels, as far as it lies in the image.
func (p *Pictures) block(values []float32, channel, x, y, side int) float64 {
	sum, n := 0.0, 0
	for row := y; row < min(y+side, p.height); row++ {
		from := (channel*p.height + row) * p.width
		for _, v := range values[from+x : from+min(x+side, p.width)] {
			sum += finite(v)
			n++
		}
	}
	return sum / float64(n)
}
