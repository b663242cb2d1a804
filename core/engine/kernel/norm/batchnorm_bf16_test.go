package norm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

// Forward and backward agree with the float64 definition over the same values,
// with and without residual and ReLU, at every length.
func TestBatchNormBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atBatchNormBF16) }

func atBatchNormBF16(t *testing.T) {
	for _, hw := range []int{1, 2, 4, 7, 16, 30, 32, 34, 64, 98, 130} {
		for _, fused := range []bool{false, true} {
			testBatchNormBF16(t, 3, 4, hw, fused)
		}
	}
}

func testBatchNormBF16(t *testing.T, n, c, hw int, fused bool) {
	t.Helper()
	name := fmt.Sprintf(" of %d pixels, fused: %v", hw, fused)
	hx, x := kerneltest.ToBF16(kerneltest.Random[float32](1, n*c*hw))
	hdy, dy := kerneltest.ToBF16(kerneltest.Random[float32](2, n*c*hw))
	hr, r := kerneltest.ToBF16(kerneltest.Random[float32](3, n*c*hw))
	gamma, beta, mean, invstd := kerneltest.Random[float32](4, c), kerneltest.Random[float32](5, c), kerneltest.Random[float32](6, c), kerneltest.Random[float32](7, c)
	want, got := make([]float64, len(x)), make([]uint16, len(x)+1)
	got[len(x)] = 77
	BatchNormApply(n, c, hw, x, kerneltest.Widened(mean), kerneltest.Widened(invstd), kerneltest.Widened(gamma), kerneltest.Widened(beta), want)
	var gate []uint16
	if fused {
		elementwise.Add(want, r, want)
		elementwise.ReLU(want, want)
		BatchNormApplyBF16(n, c, hw, hx, mean, invstd, gamma, beta, hr, true, got)
		gate = got[:len(x)]
		elementwise.ReLUGrad(kerneltest.Widened(kerneltest.FromBF16(gate)), dy, dy)
	} else {
		BatchNormApplyBF16(n, c, hw, hx, mean, invstd, gamma, beta, nil, false, got)
	}
	if got[len(x)] != 77 {
		t.Errorf("one more was written%s", name)
	}
	kerneltest.NearlyBF16(t, "y"+name, got[:len(x)], want, 1e-6)
	dg, db := kerneltest.Random[float32](8, c), kerneltest.Random[float32](9, c)
	wantDg, wantDb := kerneltest.Widened(dg), kerneltest.Widened(db)
	BatchNormGrad(n, c, hw, x, dy, kerneltest.Widened(mean), kerneltest.Widened(invstd), kerneltest.Widened(gamma), want, wantDg, wantDb, true)
	var d []uint16
	if fused && hw%4 == 0 {
		d = make([]uint16, len(x))
	}
	BatchNormGradBF16Of(0, c, n, c, hw, hx, gate, hdy, mean, invstd, gamma, hdy, dg, db, d, true) // in place
	if d != nil {
		kerneltest.NearlyBF16(t, "d"+name, d, dy, 0)
	}
	kerneltest.NearlyBF16(t, "dx"+name, hdy, want, 1e-5)
	kerneltest.CloseTo(t, "dgamma"+name, kerneltest.Widened(dg), wantDg, 1e-4)
	kerneltest.CloseTo(t, "dbeta"+name, kerneltest.Widened(db), wantDb, 1e-4)
}

// NaN goes through the ReLU and its gate.
func TestBatchNormBF16PassesNaN(t *testing.T) { kerneltest.AtBF16Levels(t, atBatchNormBF16PassesNaN) }

func atBatchNormBF16PassesNaN(t *testing.T) {
	x, y, dy, db := []uint16{0, 0x7fc0}, make([]uint16, 2), []uint16{0, 0x3f80}, make([]float32, 1)
	one, zero := []float32{1}, []float32{0}
	BatchNormApplyBF16(1, 1, 2, x, zero, one, nil, nil, nil, true, y)
	if v := kerneltest.FromBF16(y); v[0] != 0 || !math.IsNaN(float64(v[1])) {
		t.Errorf("y is %v", v)
	}
	BatchNormGradBF16Of(0, 1, 1, 1, 2, make([]uint16, 2), y, dy, zero, one, nil, make([]uint16, 2), nil, db, nil, false)
	if db[0] != 1 {
		t.Errorf("dbeta is %v, want 1", db[0])
	}
}

// Images of a half type give what float32 images of the same values do, rounded once: the
// bits of the output, and gradients up to the order of their sums.
func TestBatchNormOfHalfTypes(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			for _, hw := range []int{128, 196, 1000, mostHalf} {
				if TakesHalf(hw) {
					likeFloat32(t, d, 3, 5, hw)
				}
			}
		}
	})
}

func likeFloat32(t *testing.T, d tensor.DType, n, c, hw int) {
	t.Helper()
	values := func(seed uint64) ([]uint16, []float32) {
		wide := kerneltest.Random[float32](seed, n*c*hw)
		half := make([]uint16, len(wide))
		convert.Narrow(d, tensor.Bytes(half), wide)
		convert.Widen(d, wide, tensor.Bytes(half))
		return half, wide
	}
	rounded := func(x []float32) []uint16 {
		half := make([]uint16, len(x))
		convert.Narrow(d, tensor.Bytes(half), x)
		return half
	}
	x, wideX := values(1)
	r, wideR := values(2)
	dy, wideDy := values(3)
	gamma, beta := kerneltest.Random[float32](4, c), kerneltest.Random[float32](5, c)
	mean, variance, wantMean, wantVariance := make([]float32, c), make([]float32, c), make([]float32, c), make([]float32, c)
	BatchNormStatsHalfOf(d, 0, c, n, c, hw, x, mean, variance)
	BatchNormStats(n, c, hw, wideX, wantMean, wantVariance)
	name := fmt.Sprintf("%v, %d pixels: ", d, hw)
	kerneltest.CloseTo(t, name+"mean", kerneltest.Widened(mean), kerneltest.Widened(wantMean), 1e-6)
	kerneltest.CloseTo(t, name+"variance", kerneltest.Widened(variance), kerneltest.Widened(wantVariance), 1e-6)
	invstd := make([]float32, c)
	for i, v := range variance {
		invstd[i] = 1 / float32(math.Sqrt(float64(v)))
	}
	y, wantY := make([]uint16, len(x)), make([]float32, len(x))
	for _, relu := range []bool{false, true} {
		for _, residual := range []bool{false, true} {
			if residual != relu && residual {
				continue // float32 has no such pass
			}
			half, wide := r, wideR
			if !residual {
				half, wide = nil, nil
			}
			BatchNormApplyHalf(d, n, c, hw, x, mean, invstd, gamma, beta, half, relu, y)
			if relu {
				BatchNormReLU(n, c, hw, wideX, mean, invstd, gamma, beta, wide, wantY)
			} else {
				BatchNormApply(n, c, hw, wideX, mean, invstd, gamma, beta, wantY)
			}
			if !slices.Equal(y, rounded(wantY)) {
				t.Errorf("%soutput differs, ReLU %v, residual %v", name, relu, residual)
			}
		}
	}
	convert.Widen(d, wantY, tensor.Bytes(y))
	tol := map[tensor.DType]float64{tensor.F16: 1e-3, tensor.BF16: 8e-3}[d]
	for pass := range 3 { // without a ReLU, with one, and with one whose gradient is stored
		dx, passed, dgamma, dbeta := make([]uint16, len(x)), make([]uint16, len(x)), make([]float32, c), make([]float32, c)
		wantDx, wantPassed, wantDgamma, wantDbeta := make([]float32, len(x)), make([]float32, len(x)), make([]float32, c), make([]float32, c)
		gate, wideGate := y, wantY
		switch pass {
		case 0:
			gate, wideGate, passed, wantPassed = nil, nil, nil, nil
			BatchNormGrad(n, c, hw, wideX, wideDy, mean, invstd, gamma, wantDx, wantDgamma, wantDbeta, false)
		case 1:
			passed, wantPassed = nil, nil
		}
		if pass > 0 {
			BatchNormReLUGrad(n, c, hw, wideX, wideGate, wideDy, mean, invstd, gamma, wantDx, wantDgamma, wantDbeta, wantPassed, false)
		}
		BatchNormGradHalfOf(d, 0, c, n, c, hw, x, gate, dy, mean, invstd, gamma, dx, dgamma, dbeta, passed, false)
		got := make([]float32, len(dx))
		convert.Widen(d, got, tensor.Bytes(dx))
		kerneltest.CloseTo(t, name+"dx", kerneltest.Widened(got), kerneltest.Widened(wantDx), tol)
		kerneltest.CloseTo(t, name+"dgamma", kerneltest.Widened(dgamma), kerneltest.Widened(wantDgamma), 1e-3)
		kerneltest.CloseTo(t, name+"dbeta", kerneltest.Widened(dbeta), kerneltest.Widened(wantDbeta), 1e-3)
		if passed != nil && !slices.Equal(passed, rounded(wantPassed)) {
			t.Errorf("%swhat passes the ReLU differs", name)
		}
	}
}
