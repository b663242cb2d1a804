package imagefolder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is an image of one colour.
func plain(w, h int, c color.Color) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Set(i%w, i/w, c)
	}
	return img
}

func pngOf(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func jpegOf(img image.Image) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 95}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func put(t testing.TB, fs afero.Fs, path string, b []byte) {
	t.Helper()
	if err := afero.WriteFile(fs, path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

var red, green, blue = color.NRGBA{R: 200, A: 255}, color.NRGBA{G: 150, A: 255}, color.NRGBA{B: 100, A: 255}

// tree is a small data set in which an image's colour tells its class.
func tree(t testing.TB, root string, fs afero.Fs) afero.Fs {
	t.Helper()
	for i, class := range []string{"cat", "ant", "bee"} {
		c := []color.NRGBA{red, green, blue}[i]
		for n := range 4 {
			b, ext := pngOf(plain(20+n, 30-n, c)), ".PNG"
			if n%2 == 1 {
				b, ext = jpegOf(plain(40-n, 25+n, c)), ".JPEG"
			}
			put(t, fs, fmt.Sprintf("%s/train/%s/%d%s", root, class, n, ext), b)
		}
		put(t, fs, fmt.Sprintf("%s/val/%s/v.jpg", root, class), jpegOf(plain(50, 40, c)))
	}
	put(t, fs, root+"/train/readme.txt", []byte("not a class"))
	put(t, fs, root+"/train/ant/notes.txt", []byte("not an image"))
	put(t, fs, root+"/train/ant/._0.png", []byte("not an image"))
	put(t, fs, root+"/train/.cache/x.png", []byte("not a class"))
	return fs
}

func small() map[string]any {
	return map[string]any{"root": "/r", "size": 16, "mean": []any{0.0}, "std": []any{1.0}}
}

func open(t testing.TB, d *Dataset, given map[string]any, log *slog.Logger) (sdk.DatasetSpec, error) {
	t.Helper()
	table := small()
	for k, v := range given {
		table[k] = v
	}
	return sdktest.OpenDataset(t, d, table, log)
}

func fill(ctx context.Context, d *Dataset, split sdk.Split, epoch int, indices ...int64) ([]float32, []int32, error) {
	elems := 3 * d.size * d.size
	b := sdk.Batch{Split: split, Epoch: epoch, Seed: 5, Indices: indices, Input: tensor.Aligned(4 * elems * len(indices)), Target: tensor.Aligned(4 * len(indices))}
	err := d.Fill(ctx, &b)
	return tensor.View[float32](b.Input), tensor.View[int32](b.Target), err
}

func TestClassesAndColours(t *testing.T) {
	d := New(tree(t, "/r", afero.NewMemMapFs()))
	spec, err := open(t, d, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(spec.ClassNames, []string{"ant", "bee", "cat"}) || spec.TrainSamples != 12 || spec.TestSamples != 3 || spec.Source != "files" {
		t.Errorf("%+v", spec)
	}
	x, y, err := fill(t.Context(), d, sdk.Train, 0, 0, 5, 10, 11)
	if err != nil || !slices.Equal(y, []int32{0, 1, 2, 2}) {
		t.Fatal(y, err)
	}
	for i, want := range []color.NRGBA{green, blue, red, red} {
		for c, level := range []byte{want.R, want.G, want.B} {
			got := x[(i*3+c)*256+77] * 255
			if got < float32(level)-2 || got > float32(level)+2 {
				t.Errorf("image %d, channel %d: %v, want %d", i, c, got, level)
			}
		}
	}
}

// Files come by folder, then by name, as in torchvision, at any depth.
func TestOrder(t *testing.T) {
	fs := afero.NewMemMapFs()
	for _, p := range []string{"a/z.png", "a/B.png", "a/sub/a.png", "a/sub-1/a.png", "a/sub/deep/c.png", "b/10.png", "b/9.png"} {
		put(t, fs, "/r/train/"+p, nil)
	}
	d := New(fs)
	if _, err := open(t, d, nil, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range d.list.samples[sdk.Train].len() {
		got = append(got, strings.TrimPrefix(d.list.samples[sdk.Train].path(i), "/r/train/"))
	}
	want := []string{"a/B.png", "a/z.png", "a/sub/a.png", "a/sub-1/a.png", "a/sub/deep/c.png", "b/10.png", "b/9.png"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRootProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change func(afero.Fs)
		want   string
	}{
		"no root":     {func(fs afero.Fs) { _ = fs.RemoveAll("/r") }, "root: there is no folder /r/train"},
		"flat":        {func(fs afero.Fs) { _ = fs.RemoveAll("/r/train"); put(t, fs, "/r/train/1.png", nil) }, "root: /r/train has no folders"},
		"flat val":    {func(fs afero.Fs) { _ = fs.RemoveAll("/r/val"); put(t, fs, "/r/val/1.png", nil) }, "sort its images into one folder for each class"},
		"empty class": {func(fs afero.Fs) { put(t, fs, "/r/train/dog/x.webp", nil) }, "these classes have no images (.jpg, .jpeg or .png) in /r/train: dog"},
		"val class":   {func(fs afero.Fs) { put(t, fs, "/r/val/dog/x.png", nil) }, `/r/val has the class "dog", which /r/train does not have`},
	} {
		fs := tree(t, "/r", afero.NewMemMapFs())
		c.change(fs)
		_, err := open(t, New(fs), nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Without val, and with classes that val lacks, training is still possible.
func TestValMayBeLess(t *testing.T) {
	fs := tree(t, "/r", afero.NewMemMapFs())
	_ = fs.RemoveAll("/r/val/ant")
	d := New(fs)
	spec, err := open(t, d, nil, nil)
	if err != nil || spec.TestSamples != 2 {
		t.Fatal(spec, err)
	}
	if _, y, err := fill(t.Context(), d, sdk.Test, 0, 0, 1); err != nil || !slices.Equal(y, []int32{1, 2}) {
		t.Error(y, err)
	}
	_ = fs.RemoveAll("/r/val")
	var log bytes.Buffer
	spec, err = open(t, New(fs), nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || spec.TestSamples != 0 || !strings.Contains(log.String(), "/r/val") {
		t.Error(spec, err, log.String())
	}
}

func TestDescribeListsTheFolders(t *testing.T) {
	d := New(tree(t, "/r", afero.NewMemMapFs()))
	o, _ := sdk.CheckOptions("", d.Info().Options, small())
	spec, err := d.Describe(o)
	if err != nil || spec.Classes != 3 || spec.TrainSamples != 12 || spec.TestSamples != 3 || !spec.Input.Shape.Equal(tensor.Shape{3, 16, 16}) {
		t.Errorf("%+v, %v", spec, err)
	}
	if _, err := New(afero.NewMemMapFs()).Describe(o); err == nil || !strings.Contains(err.Error(), "set dataset.options.root to the folder that has it") {
		t.Error(err)
	}
}

func TestFingerprintIsNamesAndSizes(t *testing.T) {
	print := func(change func(afero.Fs)) string {
		fs := tree(t, "/r", afero.NewMemMapFs())
		change(fs)
		spec, err := open(t, New(fs), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return spec.Fingerprint
	}
	base := print(func(afero.Fs) {})
	for name, change := range map[string]func(afero.Fs){
		"size":  func(fs afero.Fs) { put(t, fs, "/r/train/ant/0.PNG", []byte("x")) },
		"name":  func(fs afero.Fs) { _ = fs.Rename("/r/train/ant/0.PNG", "/r/train/ant/00.PNG") },
		"class": func(fs afero.Fs) { _ = fs.Rename("/r/train/ant/0.PNG", "/r/train/bee/0.PNG.png") },
		"split": func(fs afero.Fs) { put(t, fs, "/r/val/ant/w.jpg", nil) },
	} {
		if print(change) == base {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	if print(func(fs afero.Fs) { put(t, fs, "/r/train/ant/notes.txt", []byte("other")) }) != base {
		t.Error("a file that is not an image changes the fingerprint")
	}
}

// damage is a tree in which three images of class ant are broken.
func damage(t *testing.T) afero.Fs {
	fs := tree(t, "/r", afero.NewMemMapFs())
	whole := jpegOf(plain(64, 64, green))
	put(t, fs, "/r/train/ant/0.PNG", []byte("<html>"))
	put(t, fs, "/r/train/ant/1.JPEG", whole[:len(whole)/2])
	put(t, fs, "/r/train/ant/2.PNG", nil)
	return fs
}

func TestCorruptImagesEndTheRun(t *testing.T) {
	d := New(damage(t))
	if _, err := open(t, d, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0.PNG: is neither a JPEG nor a PNG image", "1.JPEG: is truncated", "2.PNG: is empty"} {
		_, _, err := fill(t.Context(), d, sdk.Train, 0, 3, int64(i))
		if err == nil || !strings.Contains(err.Error(), "/r/train/ant/"+want) || !strings.Contains(err.Error(), `set dataset.options.corrupt = "skip"`) || !sdk.IsCorrupt(err) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The next good image takes the place of a damaged one, with its own class,
// whatever was read before; each damaged one is counted and reported once.
func TestCorruptImagesAreSkipped(t *testing.T) {
	fs := damage(t)
	put(t, fs, "/r/train/ant/3.JPEG", []byte("\xff\xd8\xff\xe0 no more"))
	put(t, fs, "/r/train/cat/3.JPEG", []byte("x"))
	var log bytes.Buffer
	d := New(fs)
	if _, err := open(t, d, map[string]any{"corrupt": "skip", "augment": "none"}, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	x, y, err := fill(t.Context(), d, sdk.Train, 0, 11, 0, 1, 2, 3, 4)
	if err != nil || !slices.Equal(y, []int32{1, 1, 1, 1, 1, 1}) { // 11 is the last: it goes on at 0, and all end at 4
		t.Fatal(y, err)
	}
	n := 3 * 16 * 16
	for i := range 6 {
		if !slices.Equal(x[i*n:(i+1)*n], x[:n]) {
			t.Errorf("image %d is another one", i)
		}
	}
	if _, _, err := fill(t.Context(), d, sdk.Train, 1, 0, 3, 11); err != nil {
		t.Error(err)
	}
	if got := strings.Count(log.String(), "skipped a damaged image"); got != 5 || !strings.Contains(log.String(), "skipped=5") {
		t.Errorf("%d reports:\n%s", got, log.String())
	}
}

func TestAllImagesCorrupt(t *testing.T) {
	fs := afero.NewMemMapFs()
	put(t, fs, "/r/train/a/1.png", []byte("x"))
	put(t, fs, "/r/train/b/1.png", []byte("y"))
	d := New(fs)
	if _, err := open(t, d, map[string]any{"corrupt": "skip"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fill(t.Context(), d, sdk.Train, 0, 1); err == nil || !strings.Contains(err.Error(), "none of the 2 images in /r/train can be decoded") {
		t.Error(err)
	}
}

// A file that vanished is not a damaged image: it ends the run even with skip.
func TestMissingFileIsAnError(t *testing.T) {
	fsys := tree(t, "/r", afero.NewMemMapFs())
	d := New(fsys)
	if _, err := open(t, d, map[string]any{"corrupt": "skip"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = fsys.Remove("/r/train/ant/0.PNG")
	if _, _, err := fill(t.Context(), d, sdk.Train, 0, 0); !errors.Is(err, fs.ErrNotExist) || !sdk.IsCorrupt(err) {
		t.Error(err)
	}
}

func TestFillEndsWithItsContext(t *testing.T) {
	d := New(tree(t, "/r", afero.NewMemMapFs()))
	if _, err := open(t, d, map[string]any{"workers": 2}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := fill(ctx, d, sdk.Train, 0, 0, 1, 2, 3, 4, 5, 6, 7); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := fill(t.Context(), d, sdk.Train, 0, 0, 1, 2); err != nil || len(d.idle) != 2 {
		t.Errorf("%d workers are back, %v", len(d.idle), err)
	}
}

// The number of workers changes nothing but the time.
func TestWorkersAgree(t *testing.T) {
	var want []float32
	for _, workers := range []int{1, 2, 7} {
		d := New(tree(t, "/r", afero.NewMemMapFs()))
		if _, err := open(t, d, map[string]any{"workers": workers}, nil); err != nil {
			t.Fatal(err)
		}
		got, _, err := fill(t.Context(), d, sdk.Train, 3, 0, 11, 5, 5, 1, 2, 9)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(want, got) {
			t.Errorf("%d workers give another batch", workers)
		}
	}
}

// Training differs from epoch to epoch, evaluation does not, nor does training
// without augmentation.
func TestAugmentation(t *testing.T) {
	fs := afero.NewMemMapFs()
	put(t, fs, "/r/train/a/1.png", pngOf(picture(60, 50)))
	put(t, fs, "/r/val/a/1.png", pngOf(picture(60, 50)))
	for augment, changes := range map[string]bool{"standard": true, "none": false} {
		d := New(fs)
		if _, err := open(t, d, map[string]any{"augment": augment}, nil); err != nil {
			t.Fatal(err)
		}
		a, _, err1 := fill(t.Context(), d, sdk.Train, 0, 0)
		b, _, err2 := fill(t.Context(), d, sdk.Train, 1, 0)
		e, _, err3 := fill(t.Context(), d, sdk.Test, 1, 0)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(a, b) == changes || slices.Equal(a, e) == changes {
			t.Errorf("augment = %s: two epochs are equal: %v, training and evaluation are: %v", augment, slices.Equal(a, b), slices.Equal(a, e))
		}
	}
}

// Every kind of image that the decoders give becomes red, green and blue.
func TestPacksEveryKind(t *testing.T) {
	rect := image.Rect(0, 0, 4, 3)
	clear := color.NRGBA{R: 200, G: 100, B: 50, A: 7}
	paletted := image.NewPaletted(rect, color.Palette{color.NRGBA{}, clear})
	gray, gray16 := image.NewGray(rect), image.NewGray16(rect)
	nrgba, rgba, deep, cmyk := image.NewNRGBA(rect), image.NewRGBA(rect), image.NewNRGBA64(rect), image.NewCMYK(rect)
	for i := range 12 {
		x, y := i%4, i/4
		paletted.SetColorIndex(x, y, 1)
		gray.SetGray(x, y, color.Gray{Y: 77})
		gray16.SetGray16(x, y, color.Gray16{Y: 77<<8 | 200})
		nrgba.SetNRGBA(x, y, clear)
		rgba.SetRGBA(x, y, color.RGBA{200, 100, 50, 255})
		deep.SetNRGBA64(x, y, color.NRGBA64{R: 200<<8 | 9, G: 100<<8 | 9, B: 50<<8 | 9, A: 7})
		cmyk.SetCMYK(x, y, color.CMYK{C: 55, M: 155, Y: 205})
	}
	for _, c := range []struct {
		img  image.Image
		want [3]byte
	}{
		{paletted, [3]byte{200, 100, 50}}, {nrgba, [3]byte{200, 100, 50}}, {rgba, [3]byte{200, 100, 50}}, {deep, [3]byte{200, 100, 50}},
		{cmyk, [3]byte{200, 100, 50}}, {gray, [3]byte{77, 77, 77}}, {gray16, [3]byte{77, 77, 77}},
	} {
		dst := make([]byte, 2*2*imagekernel.PixelBytes)
		pack(dst, c.img, image.Rect(1, 1, 3, 3))
		for i, got := range dst {
			if channel := i % imagekernel.PixelBytes; channel < len(c.want) && got != c.want[channel] {
				t.Errorf("%T: byte %d is %d, want %d", c.img, i, got, c.want[channel])
			}
		}
	}
}

// Every part of an image of every kind of chroma has the pixels that its At gives
// to within one level: it rounds in another way.
func TestYCbCrPixels(t *testing.T) {
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		if ratio == image.YCbCrSubsampleRatio422 || ratio == image.YCbCrSubsampleRatio420 {
			continue // interpolated: TestJPEGIsLibjpegs
		}
		img := image.NewYCbCr(image.Rect(0, 0, 41, 9), ratio)
		for _, plane := range [][]byte{img.Y, img.Cb, img.Cr} {
			for i := range plane {
				plane[i] = byte(i * 37)
			}
		}
		for x0 := range 6 {
			for _, x1 := range []int{x0 + 1, x0 + 2, 20, 33, 41} {
				r := image.Rect(x0, 1, x1, 8)
				dst := make([]byte, imagekernel.PixelBytes*r.Dx()*r.Dy())
				pack(dst, img, r)
				for i := 0; i < len(dst); i += imagekernel.PixelBytes {
					x, y := r.Min.X+i/imagekernel.PixelBytes%r.Dx(), r.Min.Y+i/imagekernel.PixelBytes/r.Dx()
					at := img.YCbCrAt(x, y)
					red, green, blue := color.YCbCrToRGB(at.Y, at.Cb, at.Cr)
					if dst[i]-red+1 > 2 || dst[i+1]-green+1 > 2 || dst[i+2]-blue+1 > 2 {
						t.Fatalf("%v, %v: pixel (%d, %d) is %v", ratio, r, x, y, dst[i:i+3])
					}
				}
			}
		}
	}
}

// A small file that announces a huge image is refused before memory is taken.
func TestHugeImagesAreRefused(t *testing.T) {
	b := pngOf(plain(4, 4, red))
	copy(b[16:], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // width and height
	if _, err := decodeImage(b); err == nil {
		t.Error("accepted")
	}
}

// BenchmarkFill is what one core does of ImageNet's usual images.
func BenchmarkFill(b *testing.B) {
	fs := afero.NewMemMapFs()
	img := image.NewNRGBA(image.Rect(0, 0, 500, 375))
	for i := range img.Pix {
		img.Pix[i] = byte(i/4%500/3 + i/2000 + i%7)
	}
	put(b, fs, "/r/train/a/1.jpg", jpegOf(img))
	d := New(fs)
	if _, err := open(b, d, map[string]any{"size": 224, "workers": 1}, nil); err != nil {
		b.Fatal(err)
	}
	batch := sdk.Batch{Indices: []int64{0}, Input: tensor.Aligned(4 * 3 * 224 * 224), Target: tensor.Aligned(4)}
	b.ReportAllocs()
	for b.Loop() {
		batch.Epoch++
		if err := d.Fill(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}

// JPEG images are within 3 levels of what Pillow decodes, on saturated colours too,
// and any part of an image is that part of the whole.
func TestJPEGIsLibjpegs(t *testing.T) {
	for _, name := range []string{"stripes422", "stripes420", "stripes444", "narrow422", "narrow420", "progressive", "restarts", "grey"} {
		file, err1 := os.ReadFile("testdata/" + name + ".jpg")
		want, err2 := os.ReadFile("testdata/" + name + ".rgb")
		img, err3 := decodeImage(file)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		w, h := img.Bounds().Dx(), img.Bounds().Dy()
		for _, r := range []image.Rectangle{img.Bounds(), image.Rect(1, 1, 6, 4), image.Rect(2, 3, w, h), image.Rect(w-1, h-1, w, h)} {
			r = r.Intersect(img.Bounds())
			dst := make([]byte, imagekernel.PixelBytes*r.Dx()*r.Dy())
			pack(dst, img, r)
			for i := 0; i < len(dst); i += imagekernel.PixelBytes {
				x, y := r.Min.X+i/imagekernel.PixelBytes%r.Dx(), r.Min.Y+i/imagekernel.PixelBytes/r.Dx()
				for c, got := range dst[i : i+3] {
					if off := int(got) - int(want[3*(y*w+x)+c]); off < -3 || off > 3 {
						t.Fatalf("%s, %v: channel %d of pixel (%d, %d) is %d levels off", name, r, c, x, y, off)
					}
				}
			}
		}
	}
}
