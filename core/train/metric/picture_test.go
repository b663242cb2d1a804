package metric

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Samples that are no images are shown by their first numbers or tokens.
func TestExcerpts(t *testing.T) {
	numbers := make([]float32, 50)
	numbers[0], numbers[1] = 0.123456, float32(math.Inf(-1))
	tokens := []int32{72, 105, 0xff, 33}
	for want, tc := range map[string]struct {
		spec   sdk.DatasetSpec
		sample []byte
	}{
		"0.1235 -Inf" + strings.Repeat(" 0", 46) + " … (2 more)": {sdk.DatasetSpec{Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{5, 10}}}, tensor.Bytes(numbers)},
		"72 105 255 33": {sdk.DatasetSpec{Input: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{4}}}, tensor.Bytes(tokens)},
		"Hi\uFFFD!":     {sdk.DatasetSpec{Input: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{4}}, Tokenizer: "bytes"}, tensor.Bytes(tokens)},
	} {
		if got := Excerpt(&tc.spec, tc.sample); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Pixels of pictures are those of the image before it was normalised, where that is known.
func TestPictures(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		shape   tensor.Shape
		options sdk.Options
		values  func(channel, y, x int) float32
		at      map[[2]int]color.NRGBA // by x and y
		width   int
	}{
		"grey": {tensor.Shape{1, 4, 6}, sdk.Options{"mean": []float64{0.5}, "std": []float64{0.25}},
			func(_, y, x int) float32 { return (float32(y*6+x)/255 - 0.5) / 0.25 },
			map[[2]int]color.NRGBA{{0, 0}: {0, 0, 0, 255}, {5, 3}: {23, 23, 23, 255}}, 6},
		"colour": {tensor.Shape{3, 4, 4}, sdk.Options{"mean": []float64{0.1, 0.2, 0.3}, "std": []float64{0.5}},
			func(c, y, x int) float32 { return (float32(100*c+y*4+x)/255 - float32(c+1)/10) / 0.5 },
			map[[2]int]color.NRGBA{{1, 0}: {1, 101, 201, 255}, {3, 3}: {15, 115, 215, 255}}, 4},
		"plain": {tensor.Shape{1, 4, 4}, nil, func(_, y, x int) float32 { return float32(y*4+x) / 255 }, map[[2]int]color.NRGBA{{3, 3}: {15, 15, 15, 255}}, 4},
		"unknown": {tensor.Shape{1, 4, 4}, sdk.Options{"mean": "0.5", "std": 2.0}, // options of another kind
			func(_, y, x int) float32 { return float32(y*4+x) - 5 }, map[[2]int]color.NRGBA{{0, 0}: {0, 0, 0, 255}, {3, 3}: {255, 255, 255, 255}}, 4},
		"not finite": {tensor.Shape{1, 4, 4}, nil, func(_, y, x int) float32 { return []float32{nan, 0.2, float32(math.Inf(1)), 1}[x] },
			map[[2]int]color.NRGBA{{0, 0}: {0, 0, 0, 255}, {1, 0}: {51, 51, 51, 255}, {2, 2}: {0, 0, 0, 255}}, 4},
		"large": {tensor.Shape{1, 200, 300}, nil, func(_, y, x int) float32 { return float32(x/3*3) / 300 }, // squares of 3×3
			map[[2]int]color.NRGBA{{10, 66}: {26, 26, 26, 255}, {99, 0}: {252, 252, 252, 255}}, 100},
	} {
		p := NewPictures(tensor.Spec{DType: tensor.F32, Shape: c.shape}, c.options)
		var values []float32
		for i := range c.shape.Elems() {
			size := c.shape[1] * c.shape[2]
			values = append(values, c.values(i/size, i%size/c.shape[2], i%c.shape[2]))
		}
		b, err := p.PNG(tensor.Bytes(values))
		if err != nil {
			t.Fatal(err)
		}
		m, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds().Dx() != c.width || m.Bounds().Dy() != (c.shape[1]*c.width+c.shape[2]-1)/c.shape[2] {
			t.Errorf("%s: the picture has %v", name, m.Bounds())
		}
		for at, want := range c.at {
			if got := color.NRGBAModel.Convert(m.At(at[0], at[1])); got != want {
				t.Errorf("%s: pixel %v is %v, want %v", name, at, got, want)
			}
		}
		if _, err := p.PNG(tensor.Bytes(values[1:])); err == nil {
			t.Errorf("%s: a sample with a value too few is accepted", name)
		}
	}
}

func TestWhatIsNoImage(t *testing.T) {
	for _, s := range []tensor.Spec{
		{DType: tensor.I32, Shape: tensor.Shape{3, 8, 8}}, {DType: tensor.F32, Shape: tensor.Shape{64}}, {DType: tensor.F32, Shape: tensor.Shape{2, 8, 8}}, {DType: tensor.F32, Shape: tensor.Shape{3, 8, 3}},
	} {
		if NewPictures(s, nil) != nil {
			t.Errorf("%s is an image", s)
		}
	}
}

// BenchmarkPicture makes the picture of a digit.
func BenchmarkPicture(b *testing.B) {
	values := make([]float32, 28*28)
	for i := range values {
		values[i] = float32(i%256) / 255
	}
	p := NewPictures(tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}, nil)
	for b.Loop() {
		if _, err := p.PNG(tensor.Bytes(values)); err != nil {
			b.Fatal(err)
		}
	}
}
