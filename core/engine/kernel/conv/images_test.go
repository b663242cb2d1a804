package conv

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// TestImagesInLanes has batches that fill vectors and such that do not, of geometries of any kind.
func TestImagesInLanes(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 17))
		for range rounds {
			p := randomShape(r)
			p.N = 3 + r.IntN(30)
			if work := p.N * p.K * p.OutH() * p.OutW() * p.PatchSize(); work > 1<<22 {
				p.N = max(1, p.N<<22/work)
			}
			testAlgorithm(t, Images, &p)
		}
	})
}

// TestImagesOfBlocks has images that are cut into rows, weights that are summed in parts, and filters that reach beyond the image.
func TestImagesOfBlocks(t *testing.T) {
	for _, p := range []Shape{
		{N: 9, C: 24, H: 41, W: 39, K: 5, R: 3, S: 3, StrideH: 3, StrideW: 3, PadH: 1, PadW: 1},
		{N: 17, C: 70, H: 15, W: 13, K: 13, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
		{N: 11, C: 40, H: 19, W: 30, K: 30, R: 2, S: 3, StrideH: 1, StrideW: 2, PadH: 1, PadW: 1, DilH: 2},
		{N: 5, C: 33, H: 3, W: 2, K: 25, R: 7, S: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
		{N: 24, C: 26, H: 4, W: 4, K: 28, R: 5, S: 5, StrideH: 2, StrideW: 2, PadH: 2, PadW: 2, Groups: 2},
	} {
		d := define(&p)
		kerneltest.AtEachWidth(t, func(t *testing.T) { d.test(t, Images) })
	}
}

// TestImagesInTheSameSets has images and outputs that lie a multiple of a page apart, so many of them or so few that each is stored in one run, in several, and in less than a vector.
func TestImagesInTheSameSets(t *testing.T) {
	for _, p := range []Shape{
		{N: 33, C: 16, H: 16, W: 8, K: 32, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2},
		{N: 16, C: 48, H: 16, W: 16, K: 48, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 16},
		{N: 16, C: 1024, H: 3, W: 3, K: 1024, R: 2, S: 2, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 32},
		{N: 16, C: 1024, H: 1, W: 5, K: 1024, R: 1, S: 3, StrideH: 1, StrideW: 1, PadW: 1, Groups: 512},
	} {
		d := define(&p)
		kerneltest.AtEachWidth(t, func(t *testing.T) { d.test(t, Images) })
	}
}

// TestImagesInTilesOfEveryHeight has runs of pixels beside each other and below each other, which make pairs of narrow vectors.
func TestImagesInTilesOfEveryHeight(t *testing.T) {
	for channels := 1; channels <= 14; channels++ {
		for _, n := range []int{8, 16} {
			p := Shape{N: n, C: 2 + channels%2, H: 6, W: 11, K: channels, R: 3, S: 2, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
			q := Shape{N: n, C: channels + 1, H: 5, W: 13, K: 70, R: 3, S: 3, StrideH: 1, StrideW: 2, PadH: 1, PadW: 1}
			d, e := define(&p), define(&q)
			kerneltest.AtEachWidth(t, func(t *testing.T) {
				d.test(t, Images)
				e.test(t, Images)
			})
		}
	}
}

// TestImagesHaveTheBitsOfOneAlone computes a batch, and each image of it alone, which packages direct and im2col do.
func TestImagesHaveTheBitsOfOneAlone(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("plain Go has one algorithm")
		}
		defer Force(Images)()
		for _, p := range []Shape{
			{N: 19, C: 70, H: 7, W: 9, K: 20, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
			{N: 10, C: 12, H: 14, W: 13, K: 9, R: 5, S: 4, StrideH: 3, StrideW: 1, PadH: 2, PadW: 2, DilH: 2, Groups: 3},
			{N: 16, C: 300, H: 4, W: 4, K: 14, R: 1, S: 1, StrideH: 2, StrideW: 2},
			{N: 23, C: 40, H: 8, W: 9, K: 56, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 8},
			{N: 13, C: 30, H: 11, W: 10, K: 12, R: 3, S: 5, StrideH: 2, StrideW: 3, PadH: 2, PadW: 4, DilH: 2, Groups: 3},
			{N: 9, C: 64, H: 7, W: 7, K: 80, R: 2, S: 2, StrideH: 2, StrideW: 1, PadH: 1, Groups: 2}, // sums of 128 and of 160 products
			{N: 11, C: 8, H: 5, W: 6, K: 6, R: 3, S: 2, StrideH: 1, StrideW: 5, PadH: 4, PadW: 3, Groups: 2},
			{N: 19, C: 24, H: 5, W: 10, K: 60, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 4},
			{N: 3, C: 30, H: 3, W: 3, K: 26, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 2},
			{N: 2, C: 64, H: 4, W: 16, K: 8, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 8},
		} {
			d, one := define(&p), p
			one.N = 1
			y, dx := make([]float32, len(d.y)), make([]float32, len(d.dx))
			scratch := make([]float32, Scratch[float32](&p))
			Forward(&p, d.x, d.w, d.bias, y, scratch)
			GradInput(&p, d.dy, d.w, dx, scratch)
			in, out := len(dx)/p.N, len(y)/p.N
			for n := range p.N {
				wantY, wantDx := make([]float32, out), make([]float32, in)
				Forward(&one, d.x[n*in:][:in], d.w, d.bias, wantY, scratch)
				GradInput(&one, d.dy[n*out:][:out], d.w, wantDx, scratch)
				if !slices.Equal(y[n*out:][:out], wantY) || !slices.Equal(dx[n*in:][:in], wantDx) {
					t.Fatalf("%v: image %d has other bits alone", &p, n)
				}
			}
		}
	})
}

// TestImagesOfFewChannels has weight gradients of few channels, of which images that fill vectors are in the lanes and others are not:
// in blocks of several vectors, with and without strides, and of planes whose channels would lie in the same sets of the L1 cache.
func TestImagesOfFewChannels(t *testing.T) {
	for _, p := range []Shape{
		{N: 75, C: 12, H: 7, W: 7, K: 12, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 3},
		{N: 67, C: 10, H: 8, W: 8, K: 4, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, Groups: 2},
		{N: 37, C: 4, H: 16, W: 16, K: 14, R: 5, S: 1, StrideH: 1, StrideW: 1, PadH: 2, Groups: 2},
		{N: 33, C: 6, H: 9, W: 8, K: 8, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 2},
		{N: 40, C: 6, H: 6, W: 5, K: 2, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 6, PadW: 5, DilH: 3, DilW: 3, Groups: 2},
		{N: 16, C: 4, H: 3, W: 3, K: 6, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 2},
	} {
		d := define(&p)
		kerneltest.AtEachWidth(t, func(t *testing.T) { d.test(t, Images) })
	}
}

// TestImagesWithTapsBesideEachOther has weight gradients of channels that fill a vector or half of one, with filters of even and odd
// width, columns that see some of their taps or none, and blocks of some rows.
func TestImagesWithTapsBesideEachOther(t *testing.T) {
	for _, p := range []Shape{
		{N: 3, C: 16, H: 9, W: 8, K: 18, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1, Groups: 2},
		{N: 2, C: 8, H: 6, W: 7, K: 13, R: 2, S: 2, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{N: 17, C: 7, H: 5, W: 6, K: 8, R: 1, S: 5, StrideH: 1, StrideW: 1, PadW: 3},
		{N: 2, C: 5, H: 7, W: 3, K: 12, R: 3, S: 7, StrideH: 1, StrideW: 2, PadH: 1, PadW: 3},
		{N: 3, C: 8, H: 8, W: 9, K: 9, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 2, PadW: 2, DilH: 2, DilW: 2},
		{N: 1, C: 30, H: 9, W: 9, K: 24, R: 4, S: 4, StrideH: 3, StrideW: 3, PadH: 2, PadW: 2, Groups: 2},
		{N: 1, C: 8, H: 100, W: 96, K: 8, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{N: 2, C: 8, H: 1, W: 2, K: 8, R: 1, S: 3, StrideH: 1, StrideW: 5, PadW: 4},
	} {
		d := define(&p)
		kerneltest.AtEachWidth(t, func(t *testing.T) { d.test(t, Images) })
	}
}

// TestImagesOfPixelsFarAway has more pixels than caches hold, which are read in their order before tiles are.
func TestImagesOfPixelsFarAway(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: images of 32 MiB take seconds to compare with the definition")
	}
	p := Shape{N: 61, C: 16, H: 66, W: 65, K: 16, R: 1, S: 1, StrideH: 1, StrideW: 1, Groups: 2}
	one := p
	one.N = 1
	size := p.C * p.H * p.W
	x, w, y := kerneltest.Random[float32](1, p.N*size), kerneltest.Random[float32](2, p.K*p.PatchSize()), make([]float32, p.N*size)
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		if kernel.Current() == kernel.Generic {
			t.Skip("plain Go has one algorithm")
		}
		defer Force(Images)()
		scratch := make([]float32, Scratch[float32](&p))
		Forward(&p, x, w, nil, y, scratch)
		want := make([]float32, size)
		for n := 0; n < p.N; n += 20 {
			convRef(&one, x[n*size:][:size], w, nil, want)
			kerneltest.CloseTo(t, "y", y[n*size:][:size], want, 1e-4)
		}
	})
}
