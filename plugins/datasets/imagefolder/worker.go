package imagefolder

import (
	"bytes"
	"image"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/plugins/datasets/vision"
)

// worker is the memory in which one image at a time becomes a square.
type worker struct {
	file     bytes.Buffer
	box      []byte // the part of the image that is scaled, packed
	narrow   []byte // after the rows were scaled
	square   []byte // after the columns were scaled
	sums     []int32
	col, row taps
}

// keepBytes bounds what a worker keeps from one image for the next.
const keepBytes = 32 << 20

// load reads and decodes one file. Errors of the content are *imageError.
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

// render gives the packed pixels of the view, valid until the next call.
func (w *worker) render(img image.Image, v view) []byte {
	const c = vision.Channels
	in, out := v.box.Size(), v.window.Size()
	w.col.triangle(in.X, v.full.X, v.window.Min.X, v.window.Max.X)
	w.row.triangle(in.Y, v.full.Y, v.window.Min.Y, v.window.Max.Y)
	// Rows that no output row needs are neither converted nor scaled.
	lo, hi := w.row.first[0], w.row.first[out.Y-1]+w.row.width
	for i := range w.row.first {
		w.row.first[i] -= lo
	}
	part := image.Rect(v.box.Min.X, v.box.Min.Y+lo, v.box.Max.X, v.box.Min.Y+hi)
	w.box = grow(w.box, in.X*(hi-lo)*c)
	pack(w.box, img, part.Add(img.Bounds().Min))
	w.narrow = grow(w.narrow, out.X*(hi-lo)*c)
	w.col.across(w.narrow, w.box, in.X, hi-lo)
	w.square = grow(w.square, out.X*out.Y*c)
	w.sums = slices.Grow(w.sums[:0], out.X*c)[:out.X*c]
	w.row.down(w.square, w.narrow, out.X*c, w.sums)
	if v.flip {
		mirror(w.square, out.X)
	}
	return w.square
}

// grow gives n bytes of any content, and lets go of memory that one huge image needed.
func grow(b []byte, n int) []byte {
	if cap(b) < n || cap(b) > keepBytes && n < keepBytes {
		return make([]byte, n)
	}
	return b[:n]
}

// mirror turns every row of packed pixels around.
func mirror(b []byte, width int) {
	const c = vision.Channels
	for ; len(b) > 0; b = b[width*c:] {
		for i, j := 0, (width-1)*c; i < j; i, j = i+c, j-c {
			for k := range c {
				b[i+k], b[j+k] = b[j+k], b[i+k]
			}
		}
	}
}
