package kernel

import (
	"fmt"
	"math"
	"testing"
)

var normPoolCases = []Pool{
	{N: 3, C: 4, H: 28, W: 28, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 3, H: 14, W: 14, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 6, W: 70, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 8, W: 34, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 4, W: 8, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 4, W: 22, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 2, W: 32, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 7, W: 9, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 1, C: 2, H: 2, W: 2, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 3, H: 11, W: 13, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
}

// The fused passes give what their parts give one after the other.
func TestBatchNormReLUPool(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for i := range normPoolCases {
			testNormPool[float32](t, &normPoolCases[i], 2e-5)
			testNormPool[float64](t, &normPoolCases[i], 1e-12)
		}
	})
}

func testNormPool[T Float](t *testing.T, p *Pool, tol float64) {
	t.Helper()
	name := fmt.Sprintf(" of %+v", *p)
	hw, in, out := p.H*p.W, p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x, gamma, beta, dy := random[T](1, in), random[T](2, p.C), random[T](3, p.C), random[T](4, out)
	mean, invstd := random[T](5, p.C), random[T](6, p.C)
	for _, affine := range []bool{true, false} {
		if !affine {
			gamma, beta = nil, nil
		}
		norm, wantY, wantIdx := make([]T, in), make([]T, out), make([]int32, out)
		BatchNormApply(p.N, p.C, hw, x, mean, invstd, gamma, beta, norm)
		ReLU(norm, norm)
		MaxPool2D(p, norm, wantY, wantIdx)
		y, idx := random[T](7, out), make([]int32, out)
		BatchNormReLUPool(p, x, mean, invstd, gamma, beta, y, idx, poisoned[T](BatchNormReLUPoolScratch(p)))
		closeTo(t, "y"+name, y, wantY, tol)
		for j, v := range wantY {
			if v > 0 && idx[j] != wantIdx[j] {
				t.Fatalf("place %d%s is %d, want %d", j, name, idx[j], wantIdx[j])
			}
		}
		wantDx, wantDg, wantDb := make([]T, in), random[T](8, p.C), random[T](9, p.C)
		MaxPool2DGrad(p, dy, wantIdx, wantDx)
		ReLUGrad(norm, wantDx, wantDx)
		BatchNormGrad(p.N, p.C, hw, x, wantDx, mean, invstd, gamma, wantDx, wantDg, wantDb, true)
		dx, dg, db, sums := append([]T(nil), x...), random[T](8, p.C), random[T](9, p.C), make([]T, p.C)
		BatchNormReLUPoolGrad(p, dx, y, dy, idx, mean, invstd, gamma, dx, dg, db, sums, true) // in place
		closeTo(t, "dx"+name, dx, wantDx, tol)
		closeTo(t, "dgamma"+name, dg, wantDg, 10*tol)
		closeTo(t, "dbeta"+name, db, wantDb, 10*tol)
		bias := Conv{N: p.N, C: 1, H: p.H, W: p.W, K: p.C, R: 1, S: 1, StrideH: 1, StrideW: 1}
		wantSums := make([]T, p.C)
		Conv2DGradBias(&bias, wantDx, wantSums, false)
		closeTo(t, "sums"+name, sums, wantSums, 10*tol)
	}
}

// A NaN in a window wins it, and its gradient goes through.
func TestBatchNormReLUPoolPassesNaN(t *testing.T) {
	nan := float32(math.NaN())
	atEachLevel(t, func(t *testing.T) {
		p := &Pool{N: 1, C: 1, H: 4, W: 4, R: 2, S: 2, StrideH: 2, StrideW: 2}
		x := []float32{1, 2, 3, 4, 5, nan, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}
		y, idx, dx, one, zero := make([]float32, 4), make([]int32, 4), make([]float32, 16), []float32{1}, []float32{0}
		BatchNormReLUPool(p, x, zero, one, nil, nil, y, idx, make([]float32, 16))
		sameBits(t, "y", y, []float32{nan, 8, 0, 0})
		if idx[0] != 5 || idx[1] != 7 {
			t.Errorf("places %v", idx)
		}
		beta := make([]float32, 1)
		BatchNormReLUPoolGrad(p, make([]float32, 16), y, []float32{1, 2, 4, 8}, idx, zero, one, nil, dx, nil, beta, nil, false)
		if beta[0] != 3 {
			t.Errorf("dbeta is %v, want 3", beta[0])
		}
	})
}

// A plane's moments are right where the mean is large against the deviation, and at any length.
func TestPlaneMoments(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 196, 784} {
			for _, offset := range []float32{0, 100, -3000} {
				x := random[float32](uint64(n), n)
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
		x := random[float32](1, 100)
		x[77] = float32(math.Inf(1))
		mean, variance := make([]float32, 1), make([]float32, 1)
		if BatchNormStats(1, 1, 100, x, mean, variance); mean[0]-mean[0] == 0 || variance[0]-variance[0] == 0 {
			t.Errorf("mean %v and variance %v of an infinity", mean, variance)
		}
	})
}
