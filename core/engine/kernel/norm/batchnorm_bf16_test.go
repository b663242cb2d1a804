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
			if hw < 16 { // enough small planes to be columns, and a block of them that is not the last
				testBatchNormBF16(t, 9, 70, hw, fused)
			}
		}
	}
}

// Statistics of few and of many planes are those of float64, also of channels whose first image is far from the others.
func TestBatchNormStatsBF16(t *testing.T) {
	kerneltest.AtBF16Levels(t, func(t *testing.T) {
		for _, hw := range []int{1, 2, 4, 9, 16, 30, 49, 64, 128, 130} {
			for _, n := range []int{3, 9, 270} {
				testBatchNormStatsBF16(t, n, 70, hw)
			}
		}
	})
}

func testBatchNormStatsBF16(t *testing.T, n, c, hw int) {
	t.Helper()
	values := kerneltest.Random[float32](1, n*c*hw)
	for i := range c * hw {
		if i/hw%3 == 1 {
			values[i] += 100
		}
	}
	x, exact := kerneltest.ToBF16(values)
	mean, variance, wantMean, wantVariance := make([]float32, c), make([]float32, c), make([]float64, c), make([]float64, c)
	BatchNormStatsBF16Of(0, 40, n, c, hw, x, mean, variance)
	BatchNormStatsBF16Of(40, c, n, c, hw, x, mean, variance)
	BatchNormStats(n, c, hw, exact, wantMean, wantVariance)
	name := fmt.Sprintf(" of %d planes of %d pixels", n, hw)
	kerneltest.CloseTo(t, "mean"+name, kerneltest.Widened(mean), wantMean, 1e-5)
	kerneltest.CloseTo(t, "variance"+name, kerneltest.Widened(variance), wantVariance, 1e-5)
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
			for i, hw := range []int{16, 25, 49, 63, 64, 100, 128, 196, 255, 1000, mostHalf} {
				if !TakesHalf(hw) {
					continue
				}
				likeFloat32(t, d, 3, 5, hw)
				if hw < 300 {
					likeFloat32(t, d, 3+6*(i%2), 2+50*(i%3), hw)
				}
			}
		}
	})
}

// halves are random images in a half type, and the same values in float32.
type halves struct {
	half []uint16
	wide []float32
}

func newHalves(d tensor.DType, seed uint64, n int) halves {
	h := halves{make([]uint16, n), kerneltest.Random[float32](seed, n)}
	convert.Narrow(d, tensor.Bytes(h.half), h.wide)
	convert.Widen(d, h.wide, tensor.Bytes(h.half))
	return h
}

// halfNorm is a batch norm of images of a half type, beside the one of float32 images.
type halfNorm struct {
	t                         *testing.T
	name                      string // for messages
	d                         tensor.DType
	n, c, hw                  int
	x, dy                     halves
	gamma, beta, mean, invstd []float32
}

// rounded reports whether a half type's values are float32 values rounded once.
func (b *halfNorm) rounded(half []uint16, wide []float32) bool {
	want := make([]uint16, len(wide))
	convert.Narrow(b.d, tensor.Bytes(want), wide)
	return slices.Equal(half, want)
}

func (b *halfNorm) close(what string, got, want []float32, tol float64) {
	b.t.Helper()
	kerneltest.CloseTo(b.t, b.name+what, kerneltest.Widened(got), kerneltest.Widened(want), tol)
}

func likeFloat32(t *testing.T, d tensor.DType, n, c, hw int) {
	t.Helper()
	b := &halfNorm{t: t, d: d, n: n, c: c, hw: hw, name: fmt.Sprintf("%v, %d pixels: ", d, hw), x: newHalves(d, 1, n*c*hw), dy: newHalves(d, 3, n*c*hw)}
	b.gamma, b.beta = kerneltest.Random[float32](4, c), kerneltest.Random[float32](5, c)
	b.statistics()
	residual := newHalves(d, 2, n*c*hw)
	b.output(false, halves{})
	b.output(true, halves{})
	y := b.output(true, residual)
	b.gradient(halves{}, false)
	b.gradient(y, false)
	b.gradient(y, true)
}

// statistics finds mean and 1/σ.
func (b *halfNorm) statistics() {
	b.t.Helper()
	variance, wantMean, wantVariance := make([]float32, b.c), make([]float32, b.c), make([]float32, b.c)
	b.mean, b.invstd = make([]float32, b.c), make([]float32, b.c)
	BatchNormStatsHalfOf(b.d, 0, b.c, b.n, b.c, b.hw, b.x.half, b.mean, variance)
	BatchNormStats(b.n, b.c, b.hw, b.x.wide, wantMean, wantVariance)
	b.close("mean", b.mean, wantMean, 1e-6)
	b.close("variance", variance, wantVariance, 1e-6)
	for i, v := range variance {
		b.invstd[i] = 1 / float32(math.Sqrt(float64(v)))
	}
}

// output checks and returns the normalised images; float32 has no pass with a residual and no ReLU.
func (b *halfNorm) output(relu bool, residual halves) halves {
	b.t.Helper()
	y := halves{make([]uint16, len(b.x.half)), make([]float32, len(b.x.half))}
	BatchNormApplyHalf(b.d, b.n, b.c, b.hw, b.x.half, b.mean, b.invstd, b.gamma, b.beta, residual.half, relu, y.half)
	if relu {
		BatchNormReLU(b.n, b.c, b.hw, b.x.wide, b.mean, b.invstd, b.gamma, b.beta, residual.wide, y.wide)
	} else {
		BatchNormApply(b.n, b.c, b.hw, b.x.wide, b.mean, b.invstd, b.gamma, b.beta, y.wide)
	}
	if !b.rounded(y.half, y.wide) {
		b.t.Errorf("%soutput differs, ReLU %v, residual %v", b.name, relu, residual.half != nil)
	}
	convert.Widen(b.d, y.wide, tensor.Bytes(y.half))
	return y
}

// gradient checks backward from behind a ReLU with output y, if there is one; pass stores
// the gradient that passes the ReLU.
func (b *halfNorm) gradient(y halves, pass bool) {
	b.t.Helper()
	size := len(b.x.half)
	dx, passed, dgamma, dbeta := make([]uint16, size), []uint16(nil), make([]float32, b.c), make([]float32, b.c)
	wantDx, wantPassed, wantDgamma, wantDbeta := make([]float32, size), []float32(nil), make([]float32, b.c), make([]float32, b.c)
	if pass {
		passed, wantPassed = make([]uint16, size), make([]float32, size)
	}
	if y.half == nil {
		BatchNormGrad(b.n, b.c, b.hw, b.x.wide, b.dy.wide, b.mean, b.invstd, b.gamma, wantDx, wantDgamma, wantDbeta, false)
	} else {
		BatchNormReLUGradOf(0, b.c, b.n, b.c, b.hw, b.x.wide, y.wide, b.dy.wide, b.mean, b.invstd, b.gamma, wantDx, wantDgamma, wantDbeta, wantPassed, false)
	}
	BatchNormGradHalfOf(b.d, 0, b.c, b.n, b.c, b.hw, b.x.half, y.half, b.dy.half, b.mean, b.invstd, b.gamma, dx, dgamma, dbeta, passed, false)
	got := make([]float32, size)
	convert.Widen(b.d, got, tensor.Bytes(dx))
	b.close("dx", got, wantDx, map[tensor.DType]float64{tensor.F16: 1e-3, tensor.BF16: 8e-3}[b.d])
	b.close("dgamma", dgamma, wantDgamma, 1e-3)
	b.close("dbeta", dbeta, wantDbeta, 1e-3)
	if pass && !b.rounded(passed, wantPassed) {
		b.t.Errorf("%swhat passes the ReLU differs", b.name)
	}
}
