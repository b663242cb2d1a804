package norm

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Fused passes give what their parts give one after the other, in place too.
func TestBatchNormReLU(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, hw := range []int{1, 3, 15, 16, 17, 31, 49, 64, 196, 260} {
			testNormReLU[float32](t, 3, 5, hw, 2e-5)
			testNormReLU[float64](t, 3, 5, hw, 1e-12)
		}
	})
}

func testNormReLU[T kernel.Float](t *testing.T, n, c, hw int, tol float64) {
	t.Helper()
	size := n * c * hw
	x, dy, residual, mean, invstd := kerneltest.Random[T](1, size), kerneltest.Random[T](2, size), kerneltest.Random[T](3, size), kerneltest.Random[T](4, c), kerneltest.Random[T](5, c)
	for _, gamma := range [][]T{kerneltest.Random[T](6, c), nil} {
		for _, r := range [][]T{nil, residual} {
			name := fmt.Sprintf(" of planes of %d, gamma %v, residual %v", hw, gamma != nil, r != nil)
			beta := gamma
			want := make([]T, size)
			BatchNormApply(n, c, hw, x, mean, invstd, gamma, beta, want)
			if r != nil {
				elementwise.Add(want, r, want)
			}
			elementwise.ReLU(want, want)
			y := append([]T(nil), x...)
			BatchNormReLU(n, c, hw, y, mean, invstd, gamma, beta, r, y)
			kerneltest.CloseTo(t, "y"+name, y, want, 0)

			wantD, wantDx, wantDg, wantDb := make([]T, size), make([]T, size), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c)
			elementwise.ReLUGrad(y, dy, wantD)
			BatchNormGrad(n, c, hw, x, wantD, mean, invstd, gamma, wantDx, wantDg, wantDb, true)
			dx, d, dg, db := append([]T(nil), x...), append([]T(nil), dy...), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c)
			if r == nil {
				BatchNormReLUGradOf(0, c, n, c, hw, x, y, d, mean, invstd, gamma, d, dg, db, nil, true)
				dx = d
			} else {
				BatchNormReLUGradOf(0, c, n, c, hw, dx, y, d, mean, invstd, gamma, dx, dg, db, d, true)
				kerneltest.CloseTo(t, "d"+name, d, wantD, 0)
			}
			kerneltest.CloseTo(t, "dx"+name, dx, wantDx, tol)
			kerneltest.CloseTo(t, "dgamma"+name, dg, wantDg, 10*tol)
			kerneltest.CloseTo(t, "dbeta"+name, db, wantDb, 10*tol)
		}
	}
}

// NaN passes the ReLU both ways, and infinities are cut on one side only.
func TestBatchNormReLUPassesNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, hw := range []int{5, 21} {
			x, dy := make([]float32, hw), make([]float32, hw)
			x[0], x[1], x[2], x[3], x[hw-1] = nan, inf, -inf, 1, nan
			for i := range dy {
				dy[i] = 1
			}
			y, zero, one, db := make([]float32, hw), []float32{0}, []float32{1}, []float32{0}
			BatchNormReLU(1, 1, hw, x, zero, one, nil, nil, nil, y)
			want := make([]float32, hw)
			want[0], want[1], want[3], want[hw-1] = nan, inf, 1, nan
			kerneltest.SameBits(t, "y", y, want)
			BatchNormReLUGradOf(0, 1, 1, 1, hw, make([]float32, hw), y, dy, zero, one, nil, dy, nil, db, nil, false)
			if db[0] != 4 {
				t.Errorf("planes of %d: dbeta is %v, want 4", hw, db[0])
			}
		}
	})
}
