package tiled

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Takes reports whether p can be computed by tiles at the active level.
func Takes(p *geometry.Shape) bool {
	return kernel.HasTiles() && p.GroupCount() == 1 && p.Stride1() &&
		p.PadH <= p.DilationH()*(p.R-1) && p.PadW <= p.DilationW()*(p.S-1) && 4*p.R*p.S*max(p.C, p.K)*(p.H+p.PadH)*(p.W+p.PadW) < math.MaxInt32/2
}

// frame is where images of h×w lie, and outputs of oh×ow begin, in a group of images: all numbers are pixels.
type frame struct {
	h, w, padH, padW, oh, ow int
	width, image             int // from a row to the next, and from an image to the next
	images                   int // of a group, at most
}

// groupPixels is how many pixels a group has, if it has several images.
const groupPixels = 512

func newFrame(images, h, w, oh, ow, padH, padW int) frame {
	f := frame{h: h, w: w, oh: oh, ow: ow, padH: padH, padW: padW, width: w + padW}
	f.image = (h + padH) * f.width
	f.images = max(1, min(images, groupPixels/f.image))
	return f
}

// first is where the first pixel of an image is.
func (f *frame) first() int { return f.padH*f.width + f.padW }

// rows is how many rows have outputs of so many images, with those between.
func (f *frame) rows(images int) int { return (images-1)*(f.image/f.width) + f.oh }

// plane is the room for a group's pixels, and for what filters and products of so many pixels read behind them, and copies write: an
// odd number of lines of the cache of so many elements, so that planes do not share a few of them.
func (f *frame) plane(reach, product, line int) int {
	n := f.rows(f.images)*f.width + product + reach
	n = max(n, f.first()+f.images*f.image+kernel.Block)
	return (kernel.CeilDiv(n, line) | 1) * line
}

// reach is how far behind its first tap a filter looks.
func reach(p *geometry.Shape, width int) int {
	return (p.R-1)*p.DilationH()*width + (p.S-1)*p.DilationW()
}

// halves views float32 as bfloat16, and steps as steps of a product.
func halves(x []float32) []uint16  { return unsafe.Slice((*uint16)(unsafe.Pointer(&x[0])), 2*len(x)) }
func steps(x []float32) []amx.Step { return unsafe.Slice((*amx.Step)(unsafe.Pointer(&x[0])), len(x)/2) }

// cut takes the first n elements of scratch.
func cut(scratch *[]float32, n int) []float32 {
	part := (*scratch)[:n:n]
	*scratch = (*scratch)[n:]
	return part
}
