package direct

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Filters of 1×1 that see every second column: they are filters with stride 1 over an image of those pixels that they see,
// which is as long as the output has pixels, and one row high.

// picksBF16 reports whether p has such filters. Rows have whole pairs of pixels, of which copies take the first.
func picksBF16(p *geometry.Shape) bool {
	return kernel.HasBF16() && p.R == 1 && p.S == 1 && p.StrideW == 2 && p.PadH == 0 && p.PadW == 0 && p.GroupCount() == 1 && p.W%2 == 0
}

// picked is what p is over the pixels that filters see, if it has filters of 1×1 with a stride; else p.
func picked(p *geometry.Shape) geometry.Shape {
	if !picksBF16(p) {
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
