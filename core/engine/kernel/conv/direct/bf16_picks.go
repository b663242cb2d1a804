package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Filters of 1×1 without a border see an image as one row of pixels: of all, or with a stride of those that they
// see, which are copied together first.

// fewPixels is how many pixels an image has at least; fewer cost more to copy together than pairs save.
const fewPixels = 4

// pointwise reports whether p has such filters.
func pointwise(p *geometry.Shape) bool {
	return kernel.HasBF16() && p.R*p.S == 1 && p.PadH+p.PadW == 0 && p.GroupCount() == 1 && (p.Stride1() || p.StrideW == 2 && p.W%2 == 0)
}

// picksBF16 reports whether p has such filters, with a stride of two columns. Rows have whole pairs of pixels, of which copies take the first.
func picksBF16(p *geometry.Shape) bool {
	return pointwise(p) && !p.Stride1()
}

// picked is what p is over the pixels that filters see, in one row, if it has filters of 1×1; else p.
func picked(p *geometry.Shape) geometry.Shape {
	if !pointwise(p) {
		return *p
	}
	return geometry.Shape{N: p.N, C: p.C, H: 1, W: p.OutH() * p.OutW(), K: p.K, R: 1, S: 1, StrideH: 1, StrideW: 1}
}

// picks copies between images and those of the pixels that filters see.
type picks struct {
	shape geometry.Shape // of images; without filters where none are picked
	room  []uint16       // of one image
}

func newPicks(p *geometry.Shape) (k picks) {
	if picksBF16(p) {
		k.shape = *p
	}
	return k
}

func (k *picks) some() bool { return k.shape.N > 0 }

// roomElems is the float32 that the room for an image takes.
func (k *picks) roomElems() int {
	if !k.some() {
		return 0
	}
	return kernel.CeilDiv(k.shape.C*k.shape.OutH()*k.shape.OutW(), 2)
}

// reserve takes the room from scratch, and returns the rest.
func (k *picks) reserve(scratch []float32) []float32 {
	n := k.roomElems()
	if n > 0 {
		k.room = unsafe.Slice((*uint16)(unsafe.Pointer(&scratch[0])), 2*n)
	}
	return scratch[n:]
}

// pick copies an image's pixels, from channel to channel step elements apart.
func (k *picks) pick(x, dst []uint16, step int) {
	p := &k.shape
	for c := range p.C {
		vecPickHalves(p.OutH(), p.OutW(), &x[c*p.H*p.W], 2*p.StrideH*p.W, &dst[c*step], 2*p.OutW())
	}
}

// put is the way back from the room to an image that is zero elsewhere.
func (k *picks) put(x []uint16) {
	p, plane := &k.shape, k.shape.OutH()*k.shape.OutW()
	for c := range p.C {
		to := x[c*p.H*p.W:][:p.H*p.W]
		clear(to)
		vecPutHalves(p.OutH(), p.OutW(), &k.room[c*plane], 2*p.OutW(), &to[0], 2*p.StrideH*p.W)
	}
}
