package kernel

import (
	"fmt"
	"math"
	"testing"
)

// Fused passes give what their parts give one after the other, in place too.
func TestBatchNormReLU(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, hw := range []int{1, 3, 15, 16, 17, 31, 49, 64, 196, 260} {
			testNormReLU[float32](t, 3, 5, hw, 2e-5)
			testNormReLU[float64](t, 3, 5, hw, 1e-12)
		}
	})
}

func testNormReLU[T Float](t *testing.T, n, c, hw int, tol float64) {
	t.Helper()
	size := n * c * hw
	x, dy, residual, mean, invstd := random[T](1, size), random[T](2, size), random[T](3, size), random[T](4, c), random[T](5, c)
	for _, gamma := range [][]T{random[T](6, c), nil} {
		for _, r := range [][]T{nil, residual} {
			name := fmt.Sprintf(" of planes of %d, gamma %v, residual %v", hw, gamma != nil, r != nil)
			beta := gamma
			want := make([]T, size)
			BatchNormApply(n, c, hw, x, mean, invstd, gamma, beta, want)
			if r != nil {
				Add(want, r, want)
			}
			ReLU(want, want)
			y := append([]T(nil), x...)
			BatchNormReLU(n, c, hw, y, mean, invstd, gamma, beta, r, y)
			closeTo(t, "y"+name, y, want, 0)

			wantD, wantDx, wantDg, wantDb := make([]T, size), make([]T, size), random[T](7, c), random[T](8, c)
			ReLUGrad(y, dy, wantD)
			BatchNormGrad(n, c, hw, x, wantD, mean, invstd, gamma, wantDx, wantDg, wantDb, true)
			dx, d, dg, db := append([]T(nil), x...), append([]T(nil), dy...), random[T](7, c), random[T](8, c)
			if r == nil {
				BatchNormReLUGrad(n, c, hw, x, y, d, mean, invstd, gamma, d, dg, db, nil, true)
				dx = d
			} else {
				BatchNormReLUGrad(n, c, hw, dx, y, d, mean, invstd, gamma, dx, dg, db, d, true)
				closeTo(t, "d"+name, d, wantD, 0)
			}
			closeTo(t, "dx"+name, dx, wantDx, tol)
			closeTo(t, "dgamma"+name, dg, wantDg, 10*tol)
			closeTo(t, "dbeta"+name, db, wantDb, 10*tol)
		}
	}
}

// NaN passes the ReLU both ways, and infinities are cut on one side only.
func TestBatchNormReLUPassesNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	atEachLevel(t, func(t *testing.T) {
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
			sameBits(t, "y", y, want)
			BatchNormReLUGrad(1, 1, hw, make([]float32, hw), y, dy, zero, one, nil, dy, nil, db, nil, false)
			if db[0] != 4 {
				t.Errorf("planes of %d: dbeta is %v, want 4", hw, db[0])
			}
		}
	})
}
