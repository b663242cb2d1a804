package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestDepthwiseStaysInside has tensors beside pages that may not be touched: kernels that read and write them in place mask
// what lies beside a row.
func TestDepthwiseStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		defer Force(Planes)()
		g := kerneltest.NewGuardedRoom(t, 6, guardedElems)
		for _, size := range []int{3, 5, 7} {
			for _, stride := range []int{1, 2, 3} {
				for _, w := range []int{7, 8, 9, 14, 16, 17, 28, 33, 40, 53} {
					for _, pad := range []int{size / 2, 0} {
						p := Shape{N: 3, C: 2, H: 9, W: w, K: 2, R: size, S: size, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, Groups: 2}
						testInside(t, g, &p)
					}
				}
			}
			p := Shape{N: 11, C: 3, H: 4, W: 4, K: 3, R: size, S: size, StrideH: 1, StrideW: 1, PadH: size / 2, PadW: size / 2, Groups: 3}
			testInside(t, g, &p)
		}
	})
}

// TestInterleavedStaysInside has planes that end in the middle of a vector, and fewer planes than lanes.
func TestInterleavedStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		defer Force(Interleaved)()
		g := kerneltest.NewGuardedRoom(t, 6, guardedElems)
		for _, stride := range []int{1, 2, 3} {
			for _, w := range []int{1, 3, 5, 8, 14, 17, 33} {
				for channels := 3; channels < 20; channels += 8 {
					p := Shape{N: 3, C: channels, H: 9, W: w, K: 2 * channels, R: 3, S: 5, StrideH: stride, StrideW: stride, PadH: 1, PadW: 2, Groups: channels}
					testInside(t, g, &p)
				}
			}
		}
	})
}

// TestAnyShapeStaysInside has every algorithm compute geometries of any kind, and depthwise ones of a few pixels, in tensors and scratch memory
// beside pages that may not be touched.
func TestAnyShapeStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		g := kerneltest.NewGuardedRoom(t, 6, guardedElems)
		anyShapes(2000, func(p *Shape) {
			for a := Columns; a < Algorithms; a++ {
				if Takes(p, a, ToOutput) || Takes(p, a, ToInput) || Takes(p, a, ToWeight) {
					restore := Force(a)
					testInside(t, g, p)
					restore()
				}
			}
		})
	})
}

// TestAnyShapeStaysInsideInBF16 is that with images of bfloat16, which end the room that they half fill, or begin it.
func TestAnyShapeStaysInsideInBF16(t *testing.T) {
	kerneltest.AtBF16Levels(t, func(t *testing.T) {
		g := kerneltest.NewGuardedRoom(t, 6, guardedElems)
		anyShapes(1000, func(p *Shape) {
			g.Test(t, fmt.Sprintf("%+v", *p), 1, guardedSizes(p, 2, BF16Scratch(p)), func(v [][]float32, atEnd bool) {
				halves := func(v []float32, n int) []uint16 {
					h := unsafe.Slice((*uint16)(unsafe.Pointer(&v[0])), 2*len(v))
					if atEnd {
						return h[len(h)-n:]
					}
					return h[:n]
				}
				x, w, y := halves(v[0], p.N*p.C*p.H*p.W), halves(v[1], p.K*p.PatchSize()), halves(v[2], p.N*p.K*p.OutH()*p.OutW())
				bias, dw, scratch := v[3], v[4], v[5]
				GradWeightBF16(p, x, y, dw, scratch, true)
				ForwardBF16(p, x, w, bias, y, scratch)
				GradInputBF16(p, y, w, x, scratch)
			})
		})
	})
}

const guardedElems = 1 << 20

// guardedSizes are those of x, w, y, a bias, dw and scratch memory. A float32 has so many elements of x, w and y.
func guardedSizes(p *Shape, elems, scratch int) []int {
	size := func(n int) int { return kernel.CeilDiv(n, elems) }
	weights := p.K * p.PatchSize()
	return []int{size(p.N * p.C * p.H * p.W), size(weights), size(p.N * p.K * p.OutH() * p.OutW()), p.K, weights, scratch}
}

// anyShapes calls f for so many geometries that fit into guarded room.
func anyShapes(count int, f func(p *Shape)) {
	r := rand.New(rand.NewPCG(21, 9))
	for i := range kerneltest.Cases(count) {
		p := randomShape(r)
		if i%2 > 0 {
			p = tinyPlanes(r)
		}
		if max(p.N*p.C*p.H*p.W, p.K*p.PatchSize(), p.N*p.K*p.OutH()*p.OutW(), Scratch[float32](&p)) <= guardedElems {
			f(&p)
		}
	}
}

// tinyPlanes is a depthwise geometry whose planes, and what comes of them, are often smaller than a vector.
func tinyPlanes(r *rand.Rand) Shape {
	p := Shape{
		N: 1 + r.IntN(5), C: 1 + r.IntN(5), R: 1 + r.IntN(7), S: 1 + r.IntN(7), StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(3),
		DilH: 1, DilW: 1,
	}
	if r.IntN(3) > 0 {
		p.S, p.StrideW = p.R, p.StrideH
	}
	if r.IntN(2) > 0 {
		p.PadH, p.PadW = p.R/2, p.S/2
	}
	p.H, p.W = max(1, p.R-2*p.PadH)+r.IntN(9), max(1, p.S-2*p.PadW)+r.IntN(9)
	p.K, p.Groups = p.C*(1+r.IntN(4)/3), p.C
	return p
}

// testInside compares a convolution's three directions, by the algorithm that is forced, in guarded room with those elsewhere.
func testInside(t *testing.T, g kerneltest.GuardedRoom, p *Shape) {
	t.Helper()
	g.Test(t, fmt.Sprintf("%v of %+v", forced, *p), 1, guardedSizes(p, 1, Scratch[float32](p)), func(v [][]float32, _ bool) {
		x, w, y, bias, dw, scratch := v[0], v[1], v[2], v[3], v[4], v[5]
		GradWeight(p, x, y, dw, scratch, true)
		Forward(p, x, w, nil, y, scratch)
		GradInput(p, y, w, x, scratch)
		Forward(p, x, w, bias, y, scratch)
	})
}
