package jpeg

import (
	"bytes"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/kernel"
)

// refused are the files that have to go to image/jpeg.
var refused = map[string]bool{"progressive.jpg": true, "rgb.jpg": true, "cmyk.jpg": true}

func files(t testing.TB) map[string][]byte {
	t.Helper()
	if !kernel.HasInverseDCT() {
		t.Skip("there is no inverse DCT for this CPU: everything is refused")
	}
	paths, _ := filepath.Glob("testdata/*.jpg")
	found := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(p)] = b
	}
	if len(found) != 10 {
		t.Fatalf("%d files", len(found))
	}
	return found
}

// planes lists what an image of either kind shows within part, luma first.
func planes(img image.Image, part image.Rectangle) (all [][]byte) {
	rows := func(pix []byte, stride int, r image.Rectangle) {
		for y := r.Min.Y; y < r.Max.Y; y++ {
			all = append(all, pix[y*stride+r.Min.X:y*stride+r.Max.X])
		}
	}
	switch img := img.(type) {
	case *image.Gray:
		rows(img.Pix, img.Stride, part)
	case *image.YCbCr:
		rows(img.Y, img.YStride, part)
		chroma := image.Rectangle{Max: image.Pt(img.COffset(part.Max.X-1, 0)+1, (img.COffset(0, part.Max.Y-1))/img.CStride+1)}
		chroma.Min = image.Pt(img.COffset(part.Min.X, 0), img.COffset(0, part.Min.Y)/img.CStride)
		rows(img.Cb, img.CStride, chroma)
		rows(img.Cr, img.CStride, chroma)
	}
	return all
}

// same compares with image/jpeg within part; the sizes too.
func same(t *rapid.T, want, got image.Image, part image.Rectangle) {
	a, b := planes(want, part), planes(got, part)
	if want.Bounds() != got.Bounds() || len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%T %v became %T %v", want, want.Bounds(), got, got.Bounds())
	}
	if w, ok := want.(*image.YCbCr); ok && w.SubsampleRatio != got.(*image.YCbCr).SubsampleRatio {
		t.Fatalf("chroma as %v", got.(*image.YCbCr).SubsampleRatio)
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("part %v, row %d of the planes: %v, want %v", part, i, b[i], a[i])
		}
	}
}

func somewhere(t *rapid.T, r image.Rectangle) image.Rectangle {
	x, y := rapid.IntRange(0, r.Dx()-1).Draw(t, "x"), rapid.IntRange(0, r.Dy()-1).Draw(t, "y")
	return image.Rect(x, y, rapid.IntRange(x+1, r.Dx()).Draw(t, "to x"), rapid.IntRange(y+1, r.Dy()).Draw(t, "to y"))
}

// Whatever part is asked for, it has the pixels of image/jpeg.
func TestPixelsAreThoseOfImageJPEG(t *testing.T) {
	var d Decoder // one for all: nothing of an image is left for the next
	for name, file := range files(t) {
		want, err := jpeg.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			size, ok := d.Open(file)
			if ok == refused[name] {
				t.Fatalf("%s: opened %v", name, ok)
			}
			if !ok {
				return
			}
			part := somewhere(t, want.Bounds())
			got, ok := d.Decode(part)
			if !ok || size != want.Bounds().Size() {
				t.Fatalf("%s: decoded %v, size %v", name, ok, size)
			}
			same(t, want, got, part)
		})
	}
}

// Images of all sizes, from smooth to noise, in all qualities.
func TestGeneratedImages(t *testing.T) {
	files(t)
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		img := image.NewYCbCr(image.Rect(0, 0, rapid.IntRange(1, 70).Draw(t, "width"), rapid.IntRange(1, 70).Draw(t, "height")), image.YCbCrSubsampleRatio420)
		noise, slope := rapid.IntRange(1, 256).Draw(t, "noise"), rapid.IntRange(0, 9).Draw(t, "slope")
		for _, plane := range [][]byte{img.Y, img.Cb, img.Cr} {
			for i := range plane {
				plane[i] = byte(min(r.IntN(noise)+i%img.YStride*slope, 255))
			}
		}
		var show image.Image = img
		if rapid.Bool().Draw(t, "grey") {
			show = &image.Gray{Pix: img.Y, Stride: img.YStride, Rect: img.Rect}
		}
		var file bytes.Buffer
		if err := jpeg.Encode(&file, show, &jpeg.Options{Quality: rapid.IntRange(1, 100).Draw(t, "quality")}); err != nil {
			t.Fatal(err)
		}
		want, err := jpeg.Decode(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := d.Open(file.Bytes()); !ok {
			t.Fatal("refused")
		}
		got, ok := d.Decode(want.Bounds())
		if !ok {
			t.Fatal("not decoded")
		}
		same(t, want, got, want.Bounds())
	})
}

// A damaged file is refused, or decoded as image/jpeg does it; never does it
// panic or pass for good where image/jpeg finds fault.
func TestDamagedFiles(t *testing.T) {
	all := files(t)
	var d Decoder
	decoded := 0
	rapid.Check(t, func(t *rapid.T) {
		for _, name := range []string{"444.jpg", "420.jpg", "422.jpg", "grey.jpg", "restarts.jpg", "progressive.jpg"} {
			file := bytes.Clone(all[name])
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				file[rapid.IntRange(0, len(file)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
			file = file[:rapid.IntRange(len(file)-len(file)/20, len(file)).Draw(t, "length")]
			if size, ok := d.Open(file); !ok || size.X*size.Y > 1<<20 {
				continue
			}
			got, ok := d.Decode(image.Rectangle{Max: d.size})
			if !ok {
				continue
			}
			decoded++
			want, err := jpeg.Decode(bytes.NewReader(file))
			if err != nil {
				t.Fatalf("%s was decoded, although %v", name, err)
			}
			same(t, want, got, want.Bounds())
		}
	})
	if decoded == 0 {
		t.Error("nothing was decoded")
	}
}

func BenchmarkDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	img := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	for _, plane := range [][]byte{img.Y, img.Cb, img.Cr} {
		for i := range plane {
			plane[i] = byte(i%500/3 + i/2000 + r.IntN(24))
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes", file.Len())
	b.Run("image-jpeg", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jpeg.Decode(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, part := range map[string]image.Rectangle{"all": img.Rect, "quarter": image.Rect(100, 100, 350, 287)} {
		b.Run(name, func(b *testing.B) {
			files(b)
			b.ReportAllocs()
			var d Decoder
			for b.Loop() {
				if _, ok := d.Open(file.Bytes()); !ok {
					b.Fatal("refused")
				}
				if _, ok := d.Decode(part); !ok {
					b.Fatal("not decoded")
				}
			}
		})
	}
}
