package imagefolder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"log/slog"
	"math/bits"
	"sync"

	"github.com/trainctl/trainctl/core/sdk"
)

// imageError reports a file that is not a valid image.
type imageError struct {
	path string
	err  error
}

func (e *imageError) Error() string { return e.path + ": " + e.err.Error() }
func (e *imageError) Unwrap() error { return e.err }

// decode reads and decodes sample index, or the next good one of its split if
// damaged ones are skipped, and returns its index. The choice depends only on the
// files, not on the reader or on what was read before.
func (d *Dataset) decode(ctx context.Context, w *worker, split sdk.Split, index int) (used int, img image.Image, err error) {
	s := &d.list.samples[split]
	for step := range s.len() {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		used = (index + step) % s.len()
		if d.damaged.has(split, used) {
			continue
		}
		img, err = w.load(d.fs, s.path(used))
		var bad *imageError
		switch {
		case err == nil:
			return used, img, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return 0, nil, sdk.Corrupt(fmt.Errorf("imagefolder: %w, although it was listed when the run began", err))
		case !errors.As(err, &bad):
			return 0, nil, fmt.Errorf("imagefolder: %w", err)
		case !d.skip:
			return 0, nil, sdk.Corrupt(fmt.Errorf("imagefolder: %w; replace the file, or set dataset.options.corrupt = %q to skip it", err, corruptSkip))
		}
		d.damaged.add(split, used, bad)
	}
	return 0, nil, sdk.Corrupt(fmt.Errorf("imagefolder: none of the %d images in %s can be decoded", s.len(), d.folder(split)))
}

// damaged records the images that were skipped.
type damaged struct {
	log   *slog.Logger
	mu    sync.Mutex
	known [2]map[int]struct{} // by sdk.Split
}

func (d *damaged) has(split sdk.Split, i int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, bad := d.known[split][i]
	return bad
}

// add counts an image once. It logs the first ones, and then fewer and fewer.
func (d *damaged) add(split sdk.Split, i int, err *imageError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[split] == nil {
		d.known[split] = map[int]struct{}{}
	}
	if _, twice := d.known[split][i]; twice {
		return
	}
	d.known[split][i] = struct{}{}
	n := len(d.known[sdk.Train]) + len(d.known[sdk.Test])
	if n <= 10 || bits.OnesCount(uint(n)) == 1 {
		d.log.Warn("skipped a damaged image and used the next good one", "file", err.path, "error", err.err, "skipped", n)
	}
}

// maxPixels is the size at which Pillow refuses an image, twice its limit for a
// warning: a small file can announce gigabytes.
const maxPixels = 2 * 89_478_485

var (
	errFormat = errors.New("is neither a JPEG nor a PNG image")
	pngMagic  = []byte("\x89PNG\r\n\x1a\n")
	jpegMagic = []byte("\xff\xd8\xff")
)

// decodeImage detects the format by content: some of ImageNet's .JPEG files are PNG.
func decodeImage(b []byte) (image.Image, error) {
	decode, config := jpeg.Decode, jpeg.DecodeConfig
	switch {
	case len(b) == 0:
		return nil, errors.New("is empty")
	case bytes.HasPrefix(b, pngMagic):
		decode, config = png.Decode, png.DecodeConfig
	case !bytes.HasPrefix(b, jpegMagic):
		return nil, errFormat
	}
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return nil, readable(err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height {
		return nil, fmt.Errorf("announces %d×%d pixels", c.Width, c.Height)
	}
	img, err := decode(bytes.NewReader(b))
	return img, readable(err)
}

func readable(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("is truncated: %w", err)
	}
	return err
}
