package conv

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestDepthwiseStaysInside has tensors beside pages that may not be touched: kernels that read and write them in place mask
// what lies beside a row.
func TestDepthwiseStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		defer Force(Planes)()
		for _, size := range []int{3, 5, 7} {
			for _, stride := range []int{1, 2, 3} {
				for _, w := range []int{7, 8, 9, 14, 16, 17, 28, 33, 40, 53} {
					for _, pad := range []int{size / 2, 0} {
						p := Shape{N: 3, C: 2, H: 9, W: w, K: 2, R: size, S: size, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, Groups: 2}
						for _, atEnd := range []bool{false, true} {
							testInside(t, &p, atEnd)
						}
					}
				}
			}
		}
	})
}

// TestInterleavedStaysInside has planes that end in the middle of a vector, and fewer planes than lanes.
func TestInterleavedStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		defer Force(Interleaved)()
		for _, stride := range []int{1, 2, 3} {
			for _, w := range []int{1, 3, 5, 8, 14, 17, 33} {
				for channels := 3; channels < 20; channels += 8 {
					p := Shape{N: 3, C: channels, H: 9, W: w, K: 2 * channels, R: 3, S: 5, StrideH: stride, StrideW: stride, PadH: 1, PadW: 2, Groups: channels}
					for _, atEnd := range []bool{false, true} {
						testInside(t, &p, atEnd)
					}
				}
			}
		}
	})
}

// testInside compares a convolution's three directions on guarded memory with those elsewhere.
func testInside(t *testing.T, p *Shape, atEnd bool) {
	t.Helper()
	random := func(seed uint64, n int) (inside, other []float32) {
		inside, other = kerneltest.Guarded[float32](t, n, atEnd), kerneltest.Random[float32](seed, n)
		copy(inside, other)
		return inside, other
	}
	x, xOther := random(1, p.N*p.C*p.H*p.W)
	w, wOther := random(2, p.K*p.PatchSize())
	y, yOther := random(3, p.N*p.K*p.OutH()*p.OutW())
	scratch := make([]float32, Scratch[float32](p))
	GradWeight(p, x, y, w, scratch, true)
	GradWeight(p, xOther, yOther, wOther, scratch, true)
	kerneltest.SameBits(t, "dw of "+p.String(), w, wOther)
	Forward(p, x, w, nil, y, scratch)
	Forward(p, xOther, wOther, nil, yOther, scratch)
	kerneltest.SameBits(t, "y of "+p.String(), y, yOther)
	GradInput(p, y, w, x, scratch)
	GradInput(p, yOther, wOther, xOther, scratch)
	kerneltest.SameBits(t, "dx of "+p.String(), x, xOther)
}
