package geometry

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Views are the planes of a group's channels as every column of a filter's taps sees them:
// [channels][columns of taps][phases of rows][rows][OutW]. What a tap sees of a channel lies there in the order of the
// output's pixels, so that vectors cross the ends of rows.
type Views struct {
	p                      Shape
	Channels               int
	phase, column, channel int      // elements
	masks                  []uint32 // [columns of taps][vectors of a row]: the pixels of a vector that are inside the image
}

// viewRows is a call of the copies of rows as a tap sees them. All steps are bytes, and from is the distance of what the
// first column of the output sees from src. It counts in planes. The layout is known to gen/conv/views.go.
type viewRows struct {
	planes, rows, vectors int
	src                   *float32
	from                  int
	dst                   *float32
	masks                 *uint32
	srcPlane, srcRow      int
	dstPlane, dstRow      int
	picks                 *uint32
	second                int // from the first vector that is read for one of results to the other
}

// evenLanes picks every second element of two vectors.
var evenLanes = [kernel.Block]uint32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}

// TakesViews reports whether InputViews can be filled: there are kernels of AVX-512 for strides of one and two.
func (p *Shape) TakesViews() bool { return kernel.Current() == kernel.AVX512 && p.StrideW <= 2 }

// InputViews holds x of one group.
func (p *Shape) InputViews() Views {
	v := Views{p: *p, Channels: p.C / p.GroupCount()}
	// Behind each phase is what copies write behind the last row.
	v.phase = (kernel.CeilDiv(kernel.CeilDiv(p.H+2*p.PadH, p.StrideH)*p.OutW(), kernel.Block) + 1) * kernel.Block
	v.column = p.StrideH * v.phase
	v.channel = p.S * v.column
	return v
}

// Elems is the size of the views of an image.
func (v *Views) Elems() int { return v.Channels * v.channel }

// Copies is how many rows Fill writes, two at a time where they are pairs, and how many vectors it reads for them.
func (v *Views) Copies() (rows, vectors int) {
	for i := range min(v.p.StrideH, v.p.H) {
		if v.seen(i) {
			rows += v.Channels * v.p.S * kernel.CeilDiv(v.p.H-i, v.p.StrideH)
		}
	}
	if v.pairs() {
		rows /= 2
	}
	return rows, rows * v.p.StrideW * v.vectors()
}

// seen reports whether a tap sees row i, and those strides below.
func (v *Views) seen(i int) bool {
	for r := range v.p.R {
		if r*v.p.DilationH()%v.p.StrideH == (i+v.p.PadH)%v.p.StrideH {
			return true
		}
	}
	return false
}

// MaskElems is the room for the masks.
func (v *Views) MaskElems() int { return v.p.S * v.vectors() }

// vectors of a row.
func (v *Views) vectors() int { return kernel.CeilDiv(v.p.OutW(), kernel.Block) }

// pairs reports whether a vector holds two rows, each made of one vector of x.
func (v *Views) pairs() bool {
	return v.p.StrideW == 2 && v.p.OutW() == kernel.Block/2 && v.p.H%(2*v.p.StrideH) == 0
}

// At is where what a tap sees of a channel begins.
func (v *Views) At(channel, r, s int) int {
	row := r * v.p.DilationH()
	return channel*v.channel + s*v.column + row%v.p.StrideH*v.phase + row/v.p.StrideH*v.p.OutW()
}

// SetMasks takes MaskElems elements of room for the masks, before the first Fill.
func (v *Views) SetMasks(room []float32) {
	p, n := &v.p, v.vectors()
	v.masks = unsafe.Slice((*uint32)(unsafe.Pointer(&room[0])), v.MaskElems())
	for i := range v.masks {
		at := i % n * kernel.Block * p.StrideW // the columns of x that a vector reads
		left := p.PadW - i/n*p.DilationW() - at
		first := max(0, left)
		end := max(first, min(left+p.W, kernel.Block*p.StrideW, p.OutW()*p.StrideW-at))
		v.masks[i] = uint32(uint64(1)<<end - uint64(1)<<first)
		if v.pairs() {
			v.masks[i] |= v.masks[i] << kernel.Block
		}
	}
}

// Fill copies an image's planes into views whose border is zero already.
func (v *Views) Fill(x, dst []float32) {
	p := &v.p
	c := viewRows{
		vectors: v.vectors(), srcPlane: 4 * p.H * p.W, srcRow: 4 * p.StrideH * p.W,
		dstPlane: 4 * v.channel, dstRow: 4 * p.OutW(), picks: &evenLanes[0], second: 4 * kernel.Block,
	}
	pair := 1
	if v.pairs() {
		pair, c.second = 2, c.srcRow
		c.srcRow, c.dstRow = 2*c.srcRow, 2*c.dstRow
	}
	for s := range p.S {
		c.masks, c.from = &v.masks[s*c.vectors], 4*(s*p.DilationW()-p.PadW)
		for i := range min(p.StrideH, p.H) {
			if !v.seen(i) {
				continue
			}
			row := i + p.PadH
			c.planes, c.rows, c.src = v.Channels, kernel.CeilDiv(p.H-i, p.StrideH)/pair, &x[i*p.W]
			c.dst = &dst[s*v.column+row%p.StrideH*v.phase+row/p.StrideH*p.OutW()]
			if p.StrideW == 1 {
				vecViewRows(&c)
			} else {
				vecViewEvenRows(&c)
			}
		}
	}
}
