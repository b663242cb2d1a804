package imagefolder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// picture is an image of testdata/pillow.py.
func picture(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		x, y := i%w, i/w
		for c := range 3 {
			img.Pix[4*i+c] = byte(x*x*3 + y*(c+1)*7 + x*y*5 + 40*c)
		}
		img.Pix[4*i+3] = 255
	}
	return img
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// rgb packs pixels as Pillow does.
func rgb(pixels []byte) (packed []byte) {
	for p := range slices.Chunk(pixels, imagekernel.PixelBytes) {
		packed = append(packed, p[:vision.Channels]...)
	}
	return packed
}

// Scaled images are Pillow's to the bit, and within one level where Pillow 13
// scales columns before rows.
func TestScalingIsPillows(t *testing.T) {
	var golden struct {
		Crops []struct {
			Size   [2]int
			Box    [4]int
			Side   int
			SHA256 string
		}
		Middles []struct {
			Size        [2]int
			Short, Side int
			SHA256      string
		}
		Tall []struct {
			Size   [2]int
			Side   int
			Pixels string
		}
	}
	raw, err := os.ReadFile("testdata/pillow.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	var w worker // one for all: nothing of an image is left for the next
	for _, c := range golden.Crops {
		side := image.Pt(c.Side, c.Side)
		v := view{box: image.Rect(c.Box[0], c.Box[1], c.Box[2], c.Box[3]), full: side, window: image.Rectangle{Max: side}}
		if got := sum(rgb(w.render(picture(c.Size[0], c.Size[1]), v))); got != c.SHA256 {
			t.Errorf("%+v: not Pillow's pixels", c)
		}
	}
	for _, c := range golden.Middles {
		v := middle(image.Pt(c.Size[0], c.Size[1]), c.Side, c.Short)
		if got := sum(rgb(w.render(picture(c.Size[0], c.Size[1]), v))); got != c.SHA256 {
			t.Errorf("%+v, view %+v: not Pillow's pixels", c, v)
		}
	}
	for _, c := range golden.Tall {
		img, side := picture(c.Size[0], c.Size[1]), image.Pt(c.Side, c.Side)
		want, err := hex.DecodeString(c.Pixels)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range rgb(w.render(img, view{box: img.Rect, full: side, window: image.Rectangle{Max: side}})) {
			if off := int(got) - int(want[i]); off < -1 || off > 1 {
				t.Fatalf("%v: byte %d is %d, Pillow's is %d", c.Size, i, got, want[i])
			}
		}
	}
}

// A window shows what is there when the whole is scaled.
func TestWindowsAreParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		img := picture(n("width", 1, 40), n("height", 1, 40))
		full := image.Pt(n("out width", 1, 50), n("out height", 1, 50))
		whole := view{box: img.Rect, full: full, window: image.Rectangle{Max: full}}
		part := whole
		part.window.Min = image.Pt(n("x", 0, full.X-1), n("y", 0, full.Y-1))
		part.window.Max = part.window.Min.Add(image.Pt(n("w", 1, full.X-part.window.Min.X), n("h", 1, full.Y-part.window.Min.Y)))
		a, b := rgb(new(worker).render(img, whole)), rgb(new(worker).render(img, part))
		for y := range part.window.Dy() {
			for i := range 3 * part.window.Dx() {
				if a[((y+part.window.Min.Y)*full.X+part.window.Min.X)*3+i] != b[y*part.window.Dx()*3+i] {
					t.Fatalf("row %d, byte %d differs", y, i)
				}
			}
		}
	})
}

func TestMirror(t *testing.T) {
	img := picture(9, 5)
	v := view{box: img.Rect, full: image.Pt(9, 5), window: img.Rect, flip: true}
	got := rgb(new(worker).render(img, v))
	for i := range 9 * 5 {
		x, y := i%9, i/9
		for c := range 3 {
			if got[i*3+c] != img.Pix[img.PixOffset(8-x, y)+c] {
				t.Fatalf("(%d, %d), channel %d", x, y, c)
			}
		}
	}
}

// Boxes lie in the image, keep the limits of area and shape up to rounding,
// and reach everywhere.
func TestRandomBoxes(t *testing.T) {
	crop := randomCrop{scale: [2]float64{0.08, 1}, ratio: [2]float64{3.0 / 4, 4.0 / 3}}
	size := image.Pt(500, 375)
	lo, hi, flips := 1.0, 0.0, 0
	var seen image.Rectangle
	crop.flip = true
	for i := range int64(3000) {
		r := vision.NewSource(7, 1, i)
		v := crop.random(&r, size, 224)
		if !v.box.In(image.Rectangle{Max: size}) {
			t.Fatalf("box %v", v.box)
		}
		if v.flip {
			flips++
		}
		seen = seen.Union(v.box)
		area := float64(v.box.Dx()*v.box.Dy()) / float64(size.X*size.Y)
		lo, hi = min(lo, area), max(hi, area)
		if ratio := float64(v.box.Dx()) / float64(v.box.Dy()); ratio < 0.74 || ratio > 1.35 {
			t.Errorf("box %v has ratio %g", v.box, ratio)
		}
	}
	if lo < 0.079 || lo > 0.1 || hi < 0.95 || seen != (image.Rectangle{Max: size}) || flips < 1350 || flips > 1650 {
		t.Errorf("areas %g to %g, together %v, %d flips of 3000", lo, hi, seen, flips)
	}
}

// Where no box fits, it is the largest in the middle that keeps the shape.
func TestBoxesOfNarrowImages(t *testing.T) {
	crop := randomCrop{scale: [2]float64{1, 1}, ratio: [2]float64{0.75, 4.0 / 3}}
	for _, c := range []struct{ size, want image.Point }{
		{image.Pt(100, 1000), image.Pt(100, 133)}, {image.Pt(1000, 100), image.Pt(133, 100)}, {image.Pt(1, 50), image.Pt(1, 1)},
	} {
		r := vision.NewSource(1, 0, 0)
		got := crop.box(&r, c.size)
		off := got.Min.Sub(c.size.Sub(got.Size()).Div(2))
		if got.Size() != c.want || off != (image.Point{}) {
			t.Errorf("%v: box %v, want %v in the middle", c.size, got, c.want)
		}
	}
}

func TestTapsSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out := rapid.IntRange(1, 300).Draw(t, "in"), rapid.IntRange(1, 300).Draw(t, "out")
		var s taps
		s.triangle(in, out, 0, out, rapid.SampledFrom([]int{1, 4}).Draw(t, "group"))
		for i, first := range s.first {
			sum := 0.0
			for k, w := range s.of(i) {
				if sum += float64(w); k >= s.width && w != 0 {
					t.Fatalf("output %d: weight %d behind its %d inputs", i, k, s.width)
				}
			}
			if last := int(first) + s.width; first < 0 || last > in || math.Abs(sum/(1<<imagekernel.WeightBits)-1) > 1e-4 {
				t.Fatalf("output %d: inputs %d to %d of %d, weights sum to %g", i, first, last, in, sum)
			}
		}
	})
}
