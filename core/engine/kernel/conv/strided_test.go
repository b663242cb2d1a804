package conv

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestStridedDepthwise goes through widths, heights and paddings of the filters that have kernels for stride 2, and
// others beside them.
func TestStridedDepthwise(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		check := func(n, channels, multiplier, h, w, size, padH, padW int) {
			p := Shape{N: n, C: channels, H: h, W: w, K: channels * multiplier, R: size, S: size, StrideH: 2, StrideW: 2, PadH: padH, PadW: padW, Groups: channels}
			if p.Validate() == nil {
				testAlgorithm(t, Planes, &p)
			}
		}
		for _, size := range []int{3, 5, 7} {
			for w := size; w <= 70; w++ {
				for padW := range size {
					check(1+w%3, 3, 1, 5+w%4, w, size, size/2, padW)
				}
			}
			for h := 1; h < 12; h++ {
				for padH := range size {
					check(1, 2, 1, h, 13, size, padH, size/2)
				}
			}
			for w := size; w <= 70; w++ {
				p := Shape{N: 1 + w%3, C: 2, H: 4 + w%7, W: w, K: 2, R: size, S: size, StrideH: 3, StrideW: 3, PadH: w % 3, PadW: w % 2, Groups: 2}
				if p.Validate() == nil {
					testAlgorithm(t, Planes, &p)
				}
			}
			check(3, 2, 2, 9, 14, size, size/2, size/2)
			check(1, 2, 3, 16, 21, size, 0, size/2)
			check(1, 1, 2, 16, 21, size, 1, size/2)
			check(40, 2, 1, 40, 33, size, 1, size/2) // weight gradients of more images than one sum takes
		}
	})
}

// TestDepthwiseThirds goes through widths, heights, strides of rows and numbers of outputs of filters with a stride of three columns, and paddings beside them.
func TestDepthwiseThirds(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		check := func(p Shape) {
			p.StrideW, p.Groups = 3, p.C
			if p.Validate() == nil {
				testAlgorithm(t, Planes, &p)
			}
		}
		for _, w := range []int{9, 16, 23, 24, 25, 26, 28, 47, 48, 49, 50, 71, 100, 150, 1000} {
			for rows := 1; rows <= 4; rows++ {
				for stride := 1; stride <= 4; stride++ {
					check(Shape{N: 1 + w%3, C: 3, K: 3 * (1 + (rows+stride)/6), H: 7 + stride, W: w, R: rows, S: 3, StrideH: stride})
				}
				check(Shape{N: 2, C: 2, K: 2, H: rows, W: w, R: rows, S: 3, StrideH: rows})
			}
			check(Shape{N: 2, C: 2, K: 2, H: 9, W: w, R: 3, S: 3, StrideH: 3, PadH: w % 2, PadW: 1})
		}
		check(Shape{N: 1, C: 1, K: 1, H: 30, W: 40, R: 3, S: 3, StrideH: 3})
		check(Shape{N: 1, C: 1, K: 3, H: 30, W: 40, R: 3, S: 3, StrideH: 3})
		check(Shape{N: 70, C: 2, K: 2, H: 40, W: 50, R: 3, S: 3, StrideH: 3}) // weight gradients of more images than one sum takes
	})
}

// TestDepthwisePassesNaN puts a NaN, and for weights an infinity, on every place of a plane: neighbours in memory, which
// kernels read beyond a row, do not see it.
func TestDepthwisePassesNaN(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		for _, p := range []Shape{
			{N: 1, C: 3, K: 3, H: 5, W: 9, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 3},
			{N: 1, C: 3, K: 3, H: 4, W: 20, R: 3, S: 3, StrideH: 2, StrideW: 2, Groups: 3},
			{N: 1, C: 3, K: 3, H: 5, W: 22, R: 5, S: 5, StrideH: 2, StrideW: 2, PadH: 2, PadW: 2, Groups: 3},
			{N: 1, C: 3, K: 3, H: 5, W: 9, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3, Groups: 3},
			{N: 1, C: 3, K: 3, H: 4, W: 35, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3, Groups: 3},
			{N: 1, C: 3, K: 3, H: 6, W: 7, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 3},
			{N: 1, C: 3, K: 3, H: 4, W: 20, R: 5, S: 5, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, Groups: 3},
			{N: 1, C: 3, K: 3, H: 6, W: 52, R: 3, S: 3, StrideH: 3, StrideW: 3, Groups: 3},
			{N: 1, C: 3, K: 3, H: 1, W: 160, R: 1, S: 3, StrideH: 1, StrideW: 3, Groups: 3},
			{N: 1, C: 3, K: 3, H: 3, W: 28, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 3},
		} {
			defer Force(Planes)()
			in, out := p.H*p.W, p.OutH()*p.OutW()
			w, scratch := kerneltest.Random[float32](2, p.K*p.PatchSize()), make([]float32, Scratch[float32](&p))
			for i := range in {
				x, y, want := kerneltest.Random[float32](1, p.C*in), make([]float32, p.K*out), make([]float32, p.K*out)
				x[in+i] = float32(math.NaN())
				Forward(&p, x, w, nil, y, scratch)
				convRef(&p, x, w, nil, want)
				kerneltest.CloseTo(t, fmt.Sprintf("y of %v with NaN at %d", &p, i), y, want, 1e-4)
				x[in+i] = float32(math.Inf(1))
				dy, dw, wantDw := kerneltest.Random[float32](4, p.K*out), make([]float32, len(w)), make([]float32, len(w))
				GradWeight(&p, x, dy, dw, scratch, false)
				convGradWeightRef(&p, x, dy, wantDw, false)
				kerneltest.CloseTo(t, fmt.Sprintf("dw of %v with infinity at %d", &p, i), dw, wantDw, 1e-4)
			}
			for i := range out {
				dy, dx, want := kerneltest.Random[float32](4, p.K*out), make([]float32, p.C*in), make([]float32, p.C*in)
				dy[out+i] = float32(math.NaN())
				GradInput(&p, dy, w, dx, scratch)
				convGradInputRef(&p, dy, w, want)
				kerneltest.CloseTo(t, fmt.Sprintf("dx of %v with NaN at %d", &p, i), dx, want, 1e-4)
			}
		}
	})
}
