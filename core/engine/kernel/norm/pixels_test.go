package norm

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// smallPlanes are sizes around those that go by columns, in part or in whole.
var smallPlanes = []int{2, 3, 4, 7, 9, 15, 16, 17, 25, 31, 32, 33, 49, 64, 100, 128, 129}

// Small planes of a batch have the bits of planes alone, with a ReLU, a residual and in a gradient too, and nothing
// behind them is written.
func TestSmallPlanesBits(t *testing.T) {
	const c = 67
	factors := func(seed uint64) []float32 { return kerneltest.Random[float32](seed, c) }
	mean, scale, shift, meanDy, slope := factors(3), factors(4), factors(5), factors(6), factors(7)
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if !kernel.HasVectors[float32]() {
			return
		}
		for _, n := range []int{8, 25} {
			for _, hw := range smallPlanes {
				size := n * c * hw
				x, dy, r := kerneltest.Awkward(1, size), kerneltest.Awkward(2, size), kerneltest.Random[float32](8, size)
				compare := func(name string, run func(n, at int, dst []float32)) {
					got, want := kerneltest.Exactly[float32](size), make([]float32, size)
					run(n, 0, got.Room)
					for at := 0; at < size; at += c * hw {
						run(1, at, want[at:][:c*hw]) // an image alone goes by planes
					}
					kerneltest.SameBits(t, fmt.Sprintf("%s of %d images of planes of %d", name, n, hw), got.Room, want)
					got.Check(t, name)
				}
				compare("norm", func(n, at int, y []float32) { BatchNormApply(n, c, hw, x[at:], mean, scale, nil, shift, y) })
				compare("norm and ReLU", func(n, at int, y []float32) { BatchNormReLU(n, c, hw, x[at:], mean, scale, nil, shift, nil, y) })
				compare("norm, residual and ReLU", func(n, at int, y []float32) { BatchNormReLU(n, c, hw, x[at:], mean, scale, nil, shift, r[at:], y) })
				compare("gradient", func(n, at int, dx []float32) {
					BatchNormGradInput(n, c, hw, 10, x[at:], dy[at:], mean, scale, nil, meanDy, slope, dx)
				})
			}
		}
	})
}

// Fused passes over small planes give what their parts give one after the other.
func TestSmallPlanesReLU(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, hw := range smallPlanes {
			testNormReLU[float32](t, 9, 5, hw, 1e-4)
			testNormReLU[float32](t, 70, 19, hw, 1e-4)
		}
	})
}

// A channel's statistics and gradients have the same bits whatever channels are computed with it.
func TestSmallPlanesOfSomeChannels(t *testing.T) {
	const n, c = 70, 80
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, hw := range smallPlanes {
			x, dy := kerneltest.Random[float32](1, n*c*hw), kerneltest.Random[float32](2, n*c*hw)
			for i := range x {
				if ch := i / hw % c; ch%5 == 3 && i < c*hw {
					x[i] += 100 // so that the first plane's mean is far from the channel's
				}
			}
			values := func(starts ...int) (all []float32) {
				out := [4][]float32{make([]float32, c), make([]float32, c), make([]float32, c), make([]float32, c)}
				one, dx := kerneltest.Random[float32](3, c), make([]float32, len(x))
				for i, lo := range starts[:len(starts)-1] {
					BatchNormStatsOf(lo, starts[i+1], n, c, hw, x, out[0], out[1])
					BatchNormGradOf(lo, starts[i+1], n, c, hw, x, dy, one, one, one, dx, out[2], out[3], false)
				}
				for _, o := range out {
					all = append(all, o...)
				}
				return append(all, dx...)
			}
			kerneltest.SameBits(t, fmt.Sprintf("planes of %d in parts", hw), values(0, 1, 8, 77, c), values(0, c))
		}
	})
}
