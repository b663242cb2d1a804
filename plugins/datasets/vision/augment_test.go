package vision

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

type transforms struct {
	Width, Height int
	Image, Grey   string
	Cases         map[string]string
	GreyCases     map[string]string `json:"grey_cases"`
}

// image decodes planes.
func (g *transforms) image(t *testing.T, text string) *Image {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	n := g.Width * g.Height
	m := NewImage(g.Width, g.Height, len(b)/n)
	if err != nil || len(b) != n && len(b) != Channels*n {
		t.Fatal(err, len(b))
	}
	for c, p := range m.Planes {
		copy(p, b[c*n:])
	}
	return m
}

// applied are the transforms by their names in the goldens.
var applied = map[string]func(m *Image, v float64){
	"brightness": (*Image).Brightness, "contrast": (*Image).Contrast, "saturation": (*Image).Saturation, "hue": (*Image).Hue, "sharpness": (*Image).Sharpness,
	"posterize": func(m *Image, v float64) { m.Posterize(int(v)) }, "solarize": (*Image).Solarize,
	"autocontrast": func(m *Image, _ float64) { m.AutoContrast() }, "equalize": func(m *Image, _ float64) { m.Equalize() },
	"rotate": (*Image).Rotate, "shearx": func(m *Image, v float64) { m.Shear(v, 0) }, "sheary": func(m *Image, v float64) { m.Shear(0, v) },
	"translatex": func(m *Image, v float64) { m.Translate(int(v), 0) }, "translatey": func(m *Image, v float64) { m.Translate(0, int(v)) },
}

// Every transform gives torchvision's pixels, of colour and of grey images.
func TestTransformsAreTorchvisions(t *testing.T) {
	g := testjson.Read[transforms](t, "testdata/transforms.json")
	for from, cases := range map[string]map[string]string{g.Image: g.Cases, g.Grey: g.GreyCases} {
		for name, want := range cases {
			op, text, _ := strings.Cut(name, " ")
			var v float64
			if _, err := fmt.Sscan(text, &v); err != nil {
				t.Fatal(err)
			}
			m, w := g.image(t, from), g.image(t, want)
			applied[op](m, v)
			for c := range m.Planes {
				for i := range m.Planes[c] {
					if m.Planes[c][i] != w.Planes[c][i] {
						t.Errorf("%s of %d planes: plane %d, pixel %d, %d: %d, want %d", name, len(m.Planes), c, i%g.Width, i/g.Width, m.Planes[c][i], w.Planes[c][i])
						break
					}
				}
			}
		}
	}
}

func parse(t *testing.T, table map[string]any) (Augment, usererr.List) {
	t.Helper()
	o, problems := sdk.CheckOptions("", AugmentOptions(), table)
	a := ParseAugment(&problems, o)
	return a, problems
}

// A sample's transforms depend on seed, epoch and index, and RandAugment reaches all operations.
func TestAugmentIsDeterministic(t *testing.T) {
	a, problems := parse(t, map[string]any{"randaugment": 2, "color_jitter": []any{0.4, 0.4, 0.4, 0.1}})
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	draw := func(seed uint64, epoch int, index int64) []byte {
		m := NewImage(16, 12, Channels)
		for c, p := range m.Planes {
			for i := range p {
				p[i] = byte(i*7 + c*31)
			}
		}
		a.Image(m, seed, epoch, index)
		return slices.Concat(m.Planes...)
	}
	seen := map[string]bool{}
	for i := range int64(100) {
		first := draw(1, 2, i)
		if !bytes.Equal(first, draw(1, 2, i)) {
			t.Fatalf("sample %d has other pixels again", i)
		}
		seen[string(first)] = true
		seen[string(draw(1, 3, i))] = true
		seen[string(draw(2, 2, i))] = true
	}
	if len(seen) < 290 {
		t.Errorf("300 samples have %d kinds of pixels", len(seen))
	}
}

func TestErasing(t *testing.T) {
	a, _ := parse(t, map[string]any{"random_erasing": 0.5})
	erased := 0
	for i := range int64(400) {
		planes := make([]float32, Channels*30*40)
		for k := range planes {
			planes[k] = 1
		}
		a.Erase(planes, 40, 30, 3, 0, i)
		zeros := 0
		for k, v := range planes {
			if v == 0 {
				zeros++
				if planes[k%1200] != 0 {
					t.Fatalf("planes have different rectangles")
				}
			}
		}
		if zeros > 0 {
			erased++
			if share := float64(zeros) / 3600; share < 0.01 || share > 0.36 {
				t.Errorf("sample %d loses %v of its pixels", i, share)
			}
		}
	}
	if erased < 150 || erased > 250 {
		t.Errorf("%d of 400 images were erased with a probability of a half", erased)
	}
}

// Mixed images and targets follow the formulas of mixup and CutMix, and lambda is Beta(alpha, alpha).
func TestMixing(t *testing.T) {
	for _, c := range []struct {
		key   string
		alpha float64
	}{{"mixup", 0.2}, {"mixup", 1}, {"mixup", 4}, {"cutmix", 1}} {
		a, _ := parse(t, map[string]any{c.key: c.alpha})
		var sum, squares float64
		const n = 4000
		for i := range int64(n) {
			m := a.Mix(50, 8, 6, 9, 1, i)
			own, other := make([]float32, 144), make([]float32, 144)
			for k := range own {
				own[k], other[k] = 2, -1
			}
			m.Apply(own, other, 8, 6)
			var mean float64
			for _, v := range own {
				mean += float64(v+1) / 3 / 144
			}
			target := make([]float32, 4)
			m.Target(target, 1, 3)
			if math.Abs(mean-float64(target[1])) > 1e-5 || math.Abs(float64(target[1]+target[3])-1) > 1e-6 || m.Partner < 0 || m.Partner >= 50 {
				t.Fatalf("%s of sample %d: a share of %v and targets %v with %d", c.key, i, mean, target, m.Partner)
			}
			m.Target(target, 2, 2)
			if math.Abs(float64(target[2])-1) > 1e-6 || target[1] != 0 {
				t.Fatalf("mixed with its own class: %v", target)
			}
			sum, squares = sum+mean, squares+mean*mean
		}
		mean, variance := sum/n, squares/n-sum/n*sum/n
		if want := 1 / (4 * (2*c.alpha + 1)); c.key == "mixup" && (math.Abs(mean-0.5) > 0.02 || math.Abs(variance-want) > 0.1*want) {
			t.Errorf("alpha %v: lambda has mean %v and variance %v, want 0.5 and %v", c.alpha, mean, variance, want)
		}
	}
	// torchvision.transforms.v2.CutMix: lam = 0.64, a box of int(0.3·10) by int(0.3·20) around (9, 4).
	if got := *cutBox(0.64, 9, 4, 10, 20); got != (box{x: 6, y: 0, right: 10, bottom: 10}) {
		t.Errorf("the rectangle is %+v", got)
	}
}

func TestAugmentRefuses(t *testing.T) {
	for key, v := range map[string]any{"randaugment": -1, "randaugment_magnitude": 31, "color_jitter": []any{0.1}, "random_erasing": 2.0, "mixup": -1.0} {
		if _, problems := parse(t, map[string]any{key: v}); len(problems) != 1 || problems[0].Key != key {
			t.Errorf("%s = %v: %v", key, v, problems)
		}
	}
}

func BenchmarkRandAugment32(b *testing.B) {
	o, _ := sdk.CheckOptions("", AugmentOptions(), map[string]any{"randaugment": 2})
	var l usererr.List
	a, m := ParseAugment(&l, o), NewImage(32, 32, Channels)
	for i := 0; b.Loop(); i++ {
		a.Image(m, 1, 0, int64(i))
	}
}
