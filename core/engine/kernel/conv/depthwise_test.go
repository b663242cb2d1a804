package conv

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestDepthwise3x3 has every width up to some vectors, where filters may not reach over the edge of a plane or reach over
// all of it, and numbers of images and channels at which runs of planes begin and end.
func TestDepthwise3x3(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for w := 1; w <= 50; w++ {
			for i, dilation := range []int{1, 1, 1, 2, 3} {
				p := Shape{
					N: 1 + (w+i)%6, C: 1 + (w+2*i)%5, H: 3 + (w*5+i)%9, W: w, R: 3, S: 3, StrideH: 1, StrideW: 1,
					PadH: (w + i) % 3 * dilation, PadW: i % 3 * dilation, DilH: dilation, DilW: 1 + (w+dilation)%2*(dilation-1),
				}
				if p.K, p.Groups = p.C, p.C; p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
		}
	})
}

// TestDepthwiseSame has every width of rows with the padding that keeps it, and heights from one row to more than two tiles of them.
func TestDepthwiseSame(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for w := 1; w <= 60; w++ {
			for i, size := range []int{3, 3, 5, 7} {
				dilation := 1
				if i == 1 {
					dilation += w % 3
				}
				pad := size / 2 * dilation
				p := Shape{N: 1 + (w+i)%3, C: 1 + w%2, H: 1 + (w*7+i)%19, W: w, R: size, S: size, StrideH: 1, StrideW: 1, PadH: pad, PadW: pad, DilH: dilation, DilW: dilation}
				if p.K, p.Groups = p.C, p.C; p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
		}
	})
}

// TestDepthwiseOutputs has several outputs for each channel, and channels of which those that are computed at once are some, all, or one.
func TestDepthwiseOutputs(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for i, size := range []int{3, 5, 7} {
			for w := 1; w <= 40; w++ {
				dilation := 1 + w%5/3
				pad := (w + i) % (size*dilation - dilation + 1)
				p := Shape{N: 1 + (w+i)%3, C: 2 + w%5, H: 1 + (w*7+i)%23, W: w, R: size, S: size, StrideH: 1, StrideW: 1, PadH: pad, PadW: size / 2 * dilation, DilH: dilation, DilW: dilation}
				if p.K, p.Groups = p.C*(2+w%4), p.C; p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
		}
		for w := 5; w <= 70; w++ {
			for i, size := range []int{3, 5, 7} {
				p := Shape{N: 1 + (w+i)%4, C: 2 + w%5, H: 5 + (w*7+i)%23, W: w, R: size, S: size, StrideH: 2, StrideW: 2, PadH: (w + i) % size, PadW: w % size}
				if i == 0 && w%3 == 0 {
					p.StrideH, p.StrideW = 3, 3
				}
				if p.K, p.Groups = p.C*(2+w%3), p.C; p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
		}
		for _, p := range []Shape{{N: 2, C: 13, H: 31, W: 33, R: 3, S: 3}, {N: 3, C: 3, H: 70, W: 65, R: 5, S: 5}, {N: 3, C: 40, H: 9, W: 8, R: 3, S: 3}} {
			p.K, p.Groups, p.StrideH, p.StrideW, p.PadH, p.PadW = 2*p.C, p.C, 1, 1, 1, 1
			testAlgorithm(t, Planes, &p)
		}
	})
}

// TestDepthwise5x5And7x7 has planes from those that are too low or narrow for kernels of their own, and all paddings.
func TestDepthwise5x5And7x7(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for w := 5; w <= 36; w++ {
			for _, size := range []int{5, 7} {
				p := Shape{N: 1 + w%4, C: 1 + w%5, H: 9 + w*5%8, W: w, R: size, S: size, StrideH: 1, StrideW: 1, PadH: w % (size + 1), PadW: (w + 4) % size}
				if p.K, p.Groups = p.C, p.C; p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
		}
	})
}

// TestDepthwiseTiles has every height of a tile of pixels with every number of taps below each other, in pairs of vectors and alone.
func TestDepthwiseTiles(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for oh := 1; oh <= 9; oh++ {
			for taps := 1; taps <= 8; taps++ {
				p := Shape{N: 2, C: 3, H: oh + taps - 1, W: 17 + oh, K: 3, R: taps, S: 2, StrideH: 1, StrideW: 1, Groups: 3}
				testAlgorithm(t, Planes, &p)
			}
		}
	})
}

// TestDepthwiseSmall has all planes of a few pixels that a vector holds, and some that it does not, with strides, dilations and paddings, and numbers
// of images of which some are computed together.
func TestDepthwiseSmall(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for h := 1; h <= 9; h++ {
			for w := 1; w <= 9; w++ {
				for i, size := range []int{2, 3, 3, 5, 7} {
					p := Shape{
						N: 1 + (h*5+w+4*i)%18, C: 2 + (h+w)%3, H: h, W: w, R: size, S: size + h%2, StrideH: 1 + i%2, StrideW: 1 + (i+w)%2,
						PadH: (h + i) % size, PadW: size / 2, DilH: 1 + w%2, DilW: 1 + (h+i)%2,
					}
					if p.K, p.Groups = p.C, p.C; p.Validate() == nil {
						testAlgorithm(t, Planes, &p)
					}
				}
			}
		}
	})
}

// TestDepthwiseFours has planes of 4×4 with the padding that keeps them, numbers of images of which some are computed together, and numbers of channels.
func TestDepthwiseFours(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for n := 1; n <= 18; n++ {
			for _, size := range []int{3, 5} {
				p := Shape{N: n, C: 1 + n*5%11, H: 4, W: 4, R: size, S: size, StrideH: 1, StrideW: 1, PadH: size / 2, PadW: size / 2}
				p.K, p.Groups = p.C, p.C
				testAlgorithm(t, Planes, &p)
			}
		}
	})
}

// TestDepthwiseByImages has the same bits for an image of a batch, whatever others of it are computed with it.
func TestDepthwiseByImages(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 5, C: 3, H: 9, W: 7, R: 3, S: 3, PadH: 1, PadW: 1},
			{N: 5, C: 3, H: 8, W: 21, R: 3, S: 3, PadH: 2, PadW: 2, DilH: 2, DilW: 2},
			{N: 11, C: 3, H: 4, W: 4, R: 3, S: 3, PadH: 1, PadW: 1},
			{N: 11, C: 3, H: 4, W: 4, R: 5, S: 5, PadH: 2, PadW: 2},
			{N: 5, C: 3, H: 4, W: 4, R: 7, S: 7, PadH: 3, PadW: 3},
			{N: 5, C: 3, H: 8, W: 8, R: 5, S: 5, PadH: 2, PadW: 2},
			{N: 5, C: 3, H: 8, W: 8, R: 3, S: 3, PadH: 1, PadW: 1},
			{N: 5, C: 3, H: 9, W: 20, R: 7, S: 7, PadH: 3, PadW: 3},
			{N: 5, C: 3, H: 1, W: 50, R: 1, S: 5, PadW: 2},
			{N: 5, C: 3, H: 4, W: 20, R: 1, S: 15, PadW: 7},
			{N: 5, C: 3, H: 20, W: 4, R: 5, S: 1, PadH: 2},
		} {
			p.K, p.Groups, p.StrideH, p.StrideW = p.C, p.C, 1, 1
			x, w, scratch := kerneltest.Random[float32](1, p.N*p.C*p.H*p.W), kerneltest.Random[float32](2, p.K*p.PatchSize()), kerneltest.Poisoned[float32](Scratch[float32](&p))
			all, image := make([]float32, p.N*p.K*p.OutH()*p.OutW()), p.C*p.H*p.W
			one, alone := p.Share(1), make([]float32, len(all)/p.N)
			compare := func(what string, n int) {
				t.Helper()
				kerneltest.SameBits(t, fmt.Sprintf("%s of image %d of %v", what, n, &p), alone, all[n*len(alone):][:len(alone)])
			}
			Forward(&p, x, w, nil, all, scratch)
			for n := range p.N {
				Forward(&one, x[n*image:], w, nil, alone, scratch)
				compare("y", n)
			}
			GradInput(&p, x, w, all, scratch) // y has the size of x
			for n := range p.N {
				GradInput(&one, x[n*image:], w, alone, scratch)
				compare("dx", n)
			}
		}
	})
}
