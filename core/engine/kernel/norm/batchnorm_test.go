package norm

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The elementwise passes of the norms give the bits of the reference.
func TestNormBits(t *testing.T) {
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){
		"subMulAdd": func(a, _, dst []float32) { SubMulAdd(a, 0.1, 1.3, -0.2, dst) },
		"normGrad":  func(a, b, dst []float32) { GradRow(a, b, 0.1, 0.2, 0.3, 1.4, dst) },
	})
}

func BenchmarkStats(b *testing.B) {
	const n = 1 << 15
	x, m := kerneltest.Random[float32](1, n), make([]float32, 2)
	kerneltest.BenchBandwidth(b, 8*n, func() { BatchNormStats(1, 1, n, x, m[:1], m[1:]) })
}

// A plane's moments are right where the mean is large against the deviation, and at any length.
func TestPlaneMoments(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 196, 784} {
			for _, offset := range []float32{0, 100, -3000} {
				x := kerneltest.Random[float32](uint64(n), n)
				for i := range x {
					x[i] += offset
				}
				mean, variance := make([]float32, 1), make([]float32, 1)
				BatchNormStats(1, 1, n, x, mean, variance)
				want := momentsRef(x)
				if math.Abs(float64(mean[0])-want.mean) > 1e-6+1e-7*math.Abs(want.mean) || math.Abs(float64(variance[0])-want.square/float64(n)) > 1e-5 {
					t.Errorf("n = %d: mean %v, variance %v; want %v, %v", n, mean[0], variance[0], want.mean, want.square/float64(n))
				}
			}
		}
		x := kerneltest.Random[float32](1, 100)
		x[77] = float32(math.Inf(1))
		mean, variance := make([]float32, 1), make([]float32, 1)
		if BatchNormStats(1, 1, 100, x, mean, variance); mean[0]-mean[0] == 0 || variance[0]-variance[0] == 0 {
			t.Errorf("mean %v and variance %v of an infinity", mean, variance)
		}
	})
}

// Planes that lie side by side give the bits that each gives alone, at any length, and
// nothing behind them is written.
func TestPlanesBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		if !kernel.HasVectors[float32]() {
			return // plain Go goes plane by plane
		}
		const planes = 5
		mean, meanDy := kerneltest.Random[float32](3, planes), kerneltest.Random[float32](4, planes)
		slope, scale := kerneltest.Random[float32](5, planes), kerneltest.Random[float32](6, planes)
		for _, hw := range []int{1, 4, 7, 8, 9, 15, 16, 17, 31, 49, 64, 100, 196} {
			x, dy := kerneltest.Awkward(1, planes*hw), kerneltest.Awkward(2, planes*hw)
			y, dx := kerneltest.Exactly[float32](planes*hw), kerneltest.Exactly[float32](planes*hw)
			subMulAddPlanes(planes, hw, x, mean, scale, slope, y.Room)
			normGradPlanes(planes, hw, x, dy, mean, meanDy, slope, scale, dx.Room)
			wantY, wantDx := make([]float32, planes*hw), make([]float32, planes*hw)
			for p := range planes {
				at := p * hw
				SubMulAdd(x[at:][:hw], mean[p], scale[p], slope[p], wantY[at:][:hw])
				GradRow(x[at:][:hw], dy[at:][:hw], mean[p], meanDy[p], slope[p], scale[p], wantDx[at:][:hw])
			}
			kerneltest.SameBits(t, "y", y.Room, wantY)
			kerneltest.SameBits(t, "dx", dx.Room, wantDx)
			y.Check(t, "y")
			dx.Check(t, "dx")
		}
	})
}

// Statistics of many planes are those of float64, also where the first planes, from
// whose mean the others are measured, are unlike them.
func TestStatisticsOfManyPlanes(t *testing.T) {
	const n, c = 70, 3
	for _, hw := range []int{4, 15, 16, 17, 49, 64, 100, 196, 515, 784, 1100} {
		x := kerneltest.Random[float32](uint64(hw), n*c*hw)
		for i := range x {
			switch image := i / (c * hw); {
			case i/hw%c == 0:
				x[i] += 100
			case i/hw%c == 1 && image < 9:
				x[i] = 1e-3*x[i] - 50
			}
		}
		wantMean, want := make([]float64, c), make([]float64, c)
		BatchNormStats(n, c, hw, kerneltest.Widened(x), wantMean, want)
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			mean, variance := make([]float32, c), make([]float32, c)
			BatchNormStats(n, c, hw, x, mean, variance)
			kerneltest.Nearly(t, fmt.Sprintf("means of planes of %d", hw), mean, wantMean, 1e-6)
			kerneltest.Nearly(t, fmt.Sprintf("variances of planes of %d", hw), variance, want, 1e-5)
		})
	}
}
