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
	return kernel.HasTiles() && p.GroupCount() == 1 && p.StrideW <= 2 &&
		p.PadH <= p.DilationH()*(p.R-1) && p.PadW <= p.DilationW()*(p.S-1) && 4*p.R*p.S*max(p.C, p.K)*(p.H+p.PadH)*(p.W+p.PadW) < math.MaxInt32/4
}

// flat is p, whose images are one row where filters of 1×1 see every pixel.
func flat(p *geometry.Shape) geometry.Shape {
	f := *p
	if p.R*p.S == 1 && p.PadH+p.PadW == 0 && p.Stride1() {
		f.H, f.W = 1, p.H*p.W
	}
	return f
}

// frame is where the images of a group lie in a plane. Rows are gap pixels longer than images, and images so many rows higher; the zeros
// there are what filters see beyond an edge. A stride splits a plane by the phases of rows and of columns. Numbers are pixels of a
// phase where they are about places in it.
type frame struct {
	h, w            int // of an image
	gapH, gapW      int
	strideH         int
	strideW         int
	oh, ow          int // of what is computed for an image
	reach           int // how far behind the first tap of a phase the last one is
	width, perImage int // from a row to the next; rows from an image to the next
	images          int // of a group, at most
}

// groupPixels is how many pixels a group has, if it has several images.
const groupPixels = 512

// sized sets the places of images, of which there are n.
func (f frame) sized(n int) frame {
	f.width = kernel.CeilDiv(f.w+f.gapW, f.strideW)
	f.perImage = kernel.CeilDiv(f.h+f.gapH, f.strideH)
	f.images = max(1, min(n, groupPixels/f.image()))
	return f
}

// inputFrame holds x.
func inputFrame(p *geometry.Shape) frame {
	f := frame{h: p.H, w: p.W, gapH: p.PadH, gapW: p.PadW, strideH: p.StrideH, strideW: p.StrideW, oh: p.OutH(), ow: p.OutW()}.sized(p.N)
	f.reach = (p.R-1)*p.DilationH()/p.StrideH*f.width + (p.S-1)*p.DilationW()/p.StrideW
	return f
}

// gradFrame holds dy. What is computed are the pixels of x of a phase.
func gradFrame(p *geometry.Shape) frame {
	f := frame{h: p.OutH(), w: p.OutW(), strideH: 1, strideW: 1}
	f.gapH, f.oh = gradGap(p.H, p.OutH(), p.StrideH, p.PadH, (p.R-1)*p.DilationH())
	f.gapW, f.ow = gradGap(p.W, p.OutW(), p.StrideW, p.PadW, (p.S-1)*p.DilationW())
	f = f.sized(p.N)
	f.reach = (f.gapH+p.PadH/p.StrideH)*f.width + f.gapW + p.PadW/p.StrideW
	return f
}

// gradGap is the zeros between rows of dy, of n in an image, and how many rows of each phase x has. far is the distance from the first
// tap to the last.
func gradGap(rows, n, stride, pad, far int) (gap, phase int) {
	first, last := pad/stride, (rows-1+pad)/stride
	return max(far/stride-first, last-n+1, 0), last - first + 1
}

// image is the pixels from an image to the next.
func (f *frame) image() int { return f.perImage * f.width }

// first is where the first pixel of an image lies without a stride.
func (f *frame) first() int { return f.gapH*f.width + f.gapW }

func (f *frame) phases() int { return f.strideH * f.strideW }

// rows is how many rows have results of so many images, with those between.
func (f *frame) rows(images int) int { return (images-1)*f.perImage + f.oh }

// plane is the room for a phase of a group, and for what filters and products of so many pixels read behind it, and copies write: an
// odd number of lines of the cache of so many elements, so that planes do not share a few of them.
func (f *frame) plane(product, line int) int {
	n := f.rows(f.images)*f.width + product + f.reach
	n = max(n, (f.gapH+1)*f.width+f.gapW+f.images*f.image()+kernel.PairLanes)
	return (kernel.CeilDiv(n, line) | 1) * line
}

// place of an element of a plane with zeros above and on the left of it: its phase, and where it is there.
func (f *frame) place(row, col int) (phase, at int) {
	return row%f.strideH*f.strideW + col%f.strideW, row/f.strideH*f.width + col/f.strideW
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
