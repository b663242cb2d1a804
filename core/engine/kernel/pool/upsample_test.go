package pool

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Enlarged planes and gradients have the bits of plain Go, and end where they should.
func TestUpsamplingBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		eachUpsampling(func(h, w, factor int, bilinear bool) {
			planes := 1 + (h+w)%3
			in, out := planes*h*w, planes*h*w*factor*factor
			x, dy := kerneltest.Awkward(uint64(in), in), kerneltest.Random[float32](uint64(out), out)
			run := func() (y, dx []float32) {
				u := NewUpsampling[float32](h, w, factor, bilinear)
				y, dx = fenced(out), fenced(in)
				u.Enlarge(planes, x, y, kerneltest.Poisoned[float32](u.Scratch()))
				u.Gradient(planes, dy, dx, kerneltest.Poisoned[float32](u.Scratch()))
				return y[:out+kernel.Block], dx[:in+kernel.Block]
			}
			var wantY, wantDX []float32
			kerneltest.Reference(func() { wantY, wantDX = run() })
			y, dx := run()
			what := fmt.Sprintf("%d×%d planes %d times, bilinear %v", h, w, factor, bilinear)
			kerneltest.SameBits(t, what, y, wantY)
			kerneltest.SameBits(t, "gradient of "+what, dx, wantDX)
		})
	})
}

func eachUpsampling(f func(h, w, factor int, bilinear bool)) {
	for factor := 1; factor <= 5; factor++ {
		for _, h := range []int{1, 2, 5} {
			for _, w := range []int{1, 2, 3, 7, 8, 9, 16, 33} {
				f(h, w, factor, false)
				f(h, w, factor, true)
			}
		}
	}
}

// Gradients are the transpose of enlarging: dy·enlarge(x) = gradient(dy)·x.
func TestUpsamplingTransposed(t *testing.T) {
	eachUpsampling(func(h, w, factor int, bilinear bool) {
		u := NewUpsampling[float64](h, w, factor, bilinear)
		x, dy := kerneltest.Random[float64](1, 2*h*w), kerneltest.Random[float64](2, 2*h*w*factor*factor)
		y, dx, scratch := make([]float64, len(dy)), make([]float64, len(x)), make([]float64, u.Scratch())
		u.Enlarge(2, x, y, scratch)
		u.Gradient(2, dy, dx, scratch)
		var difference float64
		for i, g := range dy {
			difference += g * y[i]
		}
		for i, v := range x {
			difference -= v * dx[i]
		}
		if difference > 1e-9 || difference < -1e-9 {
			t.Errorf("%d×%d planes %d times, bilinear %v: products differ by %v", h, w, factor, bilinear, difference)
		}
	})
}

func BenchmarkUpsample(b *testing.B) {
	for _, bilinear := range []bool{false, true} {
		const planes, size = 64, 32
		u := NewUpsampling[float32](size, size, 2, bilinear)
		x, y, scratch := kerneltest.Random[float32](1, planes*size*size), make([]float32, 4*planes*size*size), make([]float32, u.Scratch())
		b.Run(fmt.Sprintf("bilinear %v", bilinear), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 20*len(x), func() { u.Enlarge(planes, x, y, scratch) })
		})
		b.Run(fmt.Sprintf("gradient, bilinear %v", bilinear), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 20*len(x), func() { u.Gradient(planes, y, x, scratch) })
		})
	}
}
