package conv

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestInterleaved has every stride, dilation, size of a filter and multiplier over images up to some vectors, with fewer planes than lanes, as many, and more.
func TestInterleaved(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		i := 0
		for size := range 49 {
			for _, stride := range [][2]int{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {1, 3}, {4, 2}} {
				for multiplier := 1; multiplier <= 3; multiplier++ {
					i++
					dilation := 1 + i%3
					p := Shape{
						N: 1 + i%5, C: 2 + i*7%23, H: 1 + i*5%17, W: 1 + i*11%17, R: 1 + size/7, S: 1 + size%7, StrideH: stride[0], StrideW: stride[1],
						DilH: dilation, DilW: 1 + i/3%3, PadH: i % 4, PadW: i / 2 % 5,
					}
					if p.K, p.Groups = p.C*multiplier, p.C; p.Validate() == nil {
						testAlgorithm(t, Interleaved, &p)
					}
				}
			}
		}
	})
}

// TestInterleavedStrips has planes that are computed in strips of rows, which overlap or leave rows between them.
func TestInterleavedStrips(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 2, C: 9, H: 50, W: 40, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
			{N: 3, C: 17, H: 37, W: 45, R: 5, S: 3, StrideH: 2, StrideW: 2, PadH: 2, PadW: 1},
			{N: 1, C: 5, H: 64, W: 33, R: 3, S: 7, StrideH: 3, StrideW: 3, PadH: 4, PadW: 3, DilH: 3},
			{N: 2, C: 16, H: 61, W: 47, R: 2, S: 2, StrideH: 4, StrideW: 4, PadH: 1, PadW: 1},
			{N: 1, C: 3, H: 3, W: 700, R: 3, S: 3, StrideH: 1, StrideW: 2, PadH: 1, PadW: 1},
			{N: 1, C: 3, H: 400, W: 3, R: 7, S: 3, StrideH: 2, StrideW: 1, PadH: 3, PadW: 1},
			{N: 3, C: 7, H: 32, W: 32, R: 3, S: 3, StrideH: 3, StrideW: 3, PadH: 1, PadW: 1}, // planes a multiple of a page apart
			{N: 1, C: 18, H: 32, W: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
			{N: 2, C: 5, H: 16, W: 64, R: 5, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 1, DilH: 2},
		} {
			for multiplier := 1; multiplier <= 3; multiplier++ {
				p.K, p.Groups = p.C*multiplier, p.C
				testAlgorithm(t, Interleaved, &p)
			}
		}
	})
}

// TestInterleavedManyOutputs has so many outputs for each channel that a strip is a single row, shorter than a vector.
func TestInterleavedManyOutputs(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for w := 1; w <= 18; w++ {
			p := Shape{N: 2, C: 11, H: 5, W: w, K: 11 * 130, R: 3, S: 3, StrideH: 1 + w%3, StrideW: 1 + w%2, PadH: 1, PadW: 1, Groups: 11}
			testAlgorithm(t, Interleaved, &p)
		}
	})
}

// TestInterleavedByImages has the same bits for an image, whatever others it is computed with.
func TestInterleavedByImages(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		defer Force(Interleaved)()
		for _, p := range []Shape{
			{N: 7, C: 3, K: 6, H: 9, W: 7, R: 3, S: 3, StrideH: 3, StrideW: 3, PadH: 1, PadW: 1, Groups: 3},
			{N: 3, C: 18, K: 18, H: 30, W: 40, R: 5, S: 5, StrideH: 2, StrideW: 2, PadH: 2, PadW: 2, Groups: 18},
			{N: 3, C: 7, K: 14, H: 32, W: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 7},
		} {
			in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
			x, dy, w := kerneltest.Random[float32](1, p.N*in), kerneltest.Random[float32](2, p.N*out), kerneltest.Random[float32](3, p.K*p.PatchSize())
			one, scratch := p, make([]float32, Scratch[float32](&p))
			one.N = 1
			y, dx, alone := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, max(in, out))
			Forward(&p, x, w, nil, y, scratch)
			GradInput(&p, dy, w, dx, scratch)
			for n := range p.N {
				Forward(&one, x[n*in:][:in], w, nil, alone[:out], scratch)
				kerneltest.SameBits(t, fmt.Sprintf("y of image %d of %v", n, &p), alone[:out], y[n*out:][:out])
				GradInput(&one, dy[n*out:][:out], w, alone[:in], scratch)
				kerneltest.SameBits(t, fmt.Sprintf("dx of image %d of %v", n, &p), alone[:in], dx[n*in:][:in])
			}
		}
	})
}
