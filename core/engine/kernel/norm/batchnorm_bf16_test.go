package norm

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
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
