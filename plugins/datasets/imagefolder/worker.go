package imagefolder

import (
	"bytes"
	"image"

	"github.com/spf13/afero"

	imagekernel "github.com/trainctl/trainctl/core/engine/kernel/image"
	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// worker is the memory to convert one image at a time to a square.
type worker struct {
	file     bytes.Buffer
	box      []byte // the part of the image to scale, as pixels
	narrow   []byte // after the rows were scaled
	square   []byte // after the columns were scaled
	col, row taps
	image    *vision.Image // current image; nil if transforms of pixels are off
	partner  []float32     // the sample that another one is mixed with
}

// keepBytes bounds the memory that a worker keeps for the next image.
const keepBytes = 32 << 20

// load reads and decodes one file. Errors in the content are *imageError.
func (w *worker) load(fs afero.Fs, path string) (image.Image, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if w.file.Cap() > keepBytes {
		w.file = bytes.Buffer{}
	}
	w.file.Reset()
	if _, err := w.file.ReadFrom(f); err != nil {
		return nil, err
	}
	img, err := decodeImage(w.file.Bytes())
	if err != nil {
		return nil, &imageError{path, err}
	}
	return img, nil
}

// render returns the pixels of the view, valid until the next call.
func (w *worker) render(img image.Image, v view) []byte {
	const c = imagekernel.PixelBytes
	in, out := v.box.Size(), v.window.Size()
	w.col.triangle(in.X, v.full.X, v.window.Min.X, v.window.Max.X, imagekernel.TapGroup)
	w.row.triangle(in.Y, v.full.Y, v.window.Min.Y, v.window.Max.Y, 1)
	// Rows that no output row needs are neither converted nor scaled.
	lo, hi := int(w.row.first[0]), int(w.row.first[out.Y-1])+w.row.width
	part := image.Rect(v.box.Min.X, v.box.Min.Y+lo, v.box.Max.X, v.box.Min.Y+hi)
	rows, stride := hi-lo, in.X*c
	w.box = grow(w.box, rows*stride+w.col.beyond()*c)
	pack(w.box, img, part.Add(img.Bounds().Min))
	w.narrow = grow(w.narrow, rows*out.X*c)
	for y := range rows {
		imagekernel.AcrossPixels(w.narrow[y*out.X*c:][:out.X*c], w.box[y*stride:], w.col.first, w.col.weight, w.col.each)
	}
	w.square = grow(w.square, out.X*out.Y*c)
	for y, first := range w.row.first {
		row := w.square[y*out.X*c:][:out.X*c]
		imagekernel.DownPixels(row, w.narrow[(int(first)-lo)*out.X*c:], out.X*c, w.row.of(y))
		if v.flip {
			imagekernel.MirrorPixels(row)
		}
	}
	return w.square
}

// grow returns n bytes of unspecified content, and releases memory kept from a huge image.
func grow(b []byte, n int) []byte {
	if cap(b) < n || cap(b) > keepBytes && n < keepBytes {
		return make([]byte, n)
	}
	return b[:n]
}
