package norm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/tensor"
)

var halfNormPoolCases = []pool.Shape{
	{N: 3, C: 4, H: 28, W: 28},
	{N: 3, C: 5, H: 14, W: 14},
	{N: 2, C: 3, H: 4, W: 32},
	{N: 2, C: 3, H: 6, W: 18},
	{N: 2, C: 3, H: 8, W: 16},
	{N: 2, C: 3, H: 10, W: 2},
	{N: 1, C: 2, H: 4, W: 6},
	{N: 2, C: 2, H: 22, W: 30},
}

// The passes over bfloat16 agree with those of the float32 reference over the same values.
func TestNormPoolBF16(t *testing.T) { kerneltest.AtBF16Levels(t, atNormPoolBF16) }

func atNormPoolBF16(t *testing.T) {
	for _, p := range halfNormPoolCases {
		p.R, p.S, p.StrideH, p.StrideW = 2, 2, 2, 2
		if FastPoolBF16(&p) != kernel.HasBF16() {
			t.Errorf("%+v: having a vector kernel is %v", p, FastPoolBF16(&p))
		}
		for _, affine := range []bool{true, false} {
			testNormPoolBF16(t, &p, affine)
		}
	}
	for _, p := range normPoolCases { // windows that overlap, leave gaps or hang over go the plain way
		testNormPoolBF16(t, &p, true)
	}
}

func testNormPoolBF16(t *testing.T, p *pool.Shape, affine bool) {
	t.Helper()
	name := fmt.Sprintf(" of %+v", *p)
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	hx, x := kerneltest.ToBF16(kerneltest.Random[float32](1, in))
	hdy, dy := kerneltest.ToBF16(kerneltest.Random[float32](4, out))
	gamma, beta := kerneltest.Random[float32](2, p.C), kerneltest.Random[float32](3, p.C) // scales of both signs
	wideGamma, wideBeta := kerneltest.Widened(gamma), kerneltest.Widened(beta)
	if !affine {
		gamma, beta, wideGamma, wideBeta = nil, nil, nil, nil
	}
	mean, variance := make([]float32, p.C), make([]float32, p.C)
	wideMean, wideVariance := make([]float64, p.C), make([]float64, p.C)
	BatchNormStatsBF16Of(0, p.C, p.N, p.C, p.H*p.W, hx, mean, variance)
	BatchNormStats(p.N, p.C, p.H*p.W, x, wideMean, wideVariance)
	kerneltest.CloseTo(t, "mean"+name, kerneltest.Widened(mean), wideMean, 1e-6)
	kerneltest.CloseTo(t, "variance"+name, kerneltest.Widened(variance), wideVariance, 1e-5)
	for i := range variance {
		variance[i] = float32(1 / math.Sqrt(float64(variance[i])))
		wideVariance[i] = 1 / math.Sqrt(wideVariance[i])
	}
	y, idx := make([]uint16, out+1), make([]int32, out+1)
	y[out], idx[out] = 77, 77
	wantY, wantIdx := make([]float64, out), make([]int32, out)
	BatchNormReLUPoolBF16(p, hx, mean, variance, gamma, beta, y, idx)
	BatchNormReLUPool(p, x, wideMean, wideVariance, wideGamma, wideBeta, wantY, wantIdx, make([]float64, BatchNormReLUPoolScratch(p)))
	if y[out] != 77 || idx[out] != 77 {
		t.Errorf("one output too many%s", name)
	}
	kerneltest.NearlyBF16(t, "y"+name, y[:out], wantY, 1e-5)
	for i, want := range wantIdx {
		plane := x[i/(p.OutH()*p.OutW())*p.H*p.W:]
		if wantY[i] > 1e-5 && idx[i] != want && plane[idx[i]] != plane[want] { // rounding makes ties
			t.Fatalf("place %d is %d, want %d%s", i, idx[i], want, name)
		}
	}
	wideY := kerneltest.Widened(kerneltest.FromBF16(y[:out]))
	dx, dg, db, sums := append([]uint16(nil), hx...), kerneltest.Random[float32](8, p.C), kerneltest.Random[float32](9, p.C), make([]float32, p.C)
	wantDx, wantDg, wantDb, wantSums := make([]float64, in), kerneltest.Widened(dg), kerneltest.Widened(db), make([]float64, p.C)
	BatchNormReLUPoolGradBF16Of(0, p.C, p, dx, y[:out], hdy, idx[:out], mean, variance, gamma, dx, dg, db, sums, true) // in place
	BatchNormReLUPoolGrad(p, x, wideY, dy, true, idx, wideMean, wideVariance, wideGamma, nil, wantDx, wantDg, wantDb, wantSums, true)
	kerneltest.NearlyBF16(t, "dx"+name, dx, wantDx, 1e-5)
	kerneltest.CloseTo(t, "dgamma"+name, kerneltest.Widened(dg), wantDg, 1e-4)
	kerneltest.CloseTo(t, "dbeta"+name, kerneltest.Widened(db), wantDb, 1e-4)
	kerneltest.CloseTo(t, "sums"+name, kerneltest.Widened(sums), wantSums, 1e-3)
}

// Half types that go through float32 in pieces agree with the reference over the same values.
func TestNormPoolHalf(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, p := range slices.Concat(halfNormPoolCases, []pool.Shape{{N: 40, C: 3, H: 64, W: 64}, {N: 3, C: 70, H: 12, W: 12}}) {
			p.R, p.S, p.StrideH, p.StrideW = 2, 2, 2, 2
			if TakesHalfNormPool(&p) {
				testNormPoolHalf(t, tensor.BF16, &p, 1./128)
				testNormPoolHalf(t, tensor.F16, &p, 1./1024)
			}
		}
	})
}

func testNormPoolHalf(t *testing.T, d tensor.DType, p *pool.Shape, tol float64) {
	t.Helper()
	name := fmt.Sprintf(" of %v %+v", d, *p)
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	half := func(seed uint64, n int) (h []uint16, wide []float64) {
		x := kerneltest.Random[float32](seed, n)
		h = make([]uint16, n)
		convert.Narrow(d, tensor.Bytes(h), x)
		convert.Widen(d, x, tensor.Bytes(h))
		return h, kerneltest.Widened(x)
	}
	hx, x := half(1, in)
	hdy, dy := half(4, out)
	gamma, beta := kerneltest.Random[float32](2, p.C), kerneltest.Random[float32](3, p.C)
	mean, variance, wideMean, wideVariance := make([]float32, p.C), make([]float32, p.C), make([]float64, p.C), make([]float64, p.C)
	BatchNormStatsHalfOf(d, 0, p.C, p.N, p.C, p.H*p.W, hx, mean, variance)
	BatchNormStats(p.N, p.C, p.H*p.W, x, wideMean, wideVariance)
	kerneltest.CloseTo(t, "mean"+name, kerneltest.Widened(mean), wideMean, 1e-5)
	kerneltest.CloseTo(t, "variance"+name, kerneltest.Widened(variance), wideVariance, 1e-5)
	scratch := kerneltest.Poisoned[float32](HalfNormPoolScratch(p))
	y, wideY, idx, wantY, wantIdx := make([]uint16, out), make([]float32, out), make([]int32, out), make([]float64, out), make([]int32, out)
	BatchNormReLUPoolHalf(d, p, hx, mean, variance, gamma, beta, y, idx, scratch)
	BatchNormReLUPool(p, x, kerneltest.Widened(mean), kerneltest.Widened(variance), kerneltest.Widened(gamma), kerneltest.Widened(beta), wantY, wantIdx, make([]float64, BatchNormReLUPoolScratch(p)))
	convert.Widen(d, wideY, tensor.Bytes(y))
	kerneltest.CloseTo(t, "y"+name, kerneltest.Widened(wideY), wantY, tol)
	dx, wideDx, dg, db, sums := slices.Clone(hx), make([]float32, in), make([]float32, p.C), make([]float32, p.C), make([]float32, p.C)
	wantDx, wantDg, wantDb, wantSums := make([]float64, in), make([]float64, p.C), make([]float64, p.C), make([]float64, p.C)
	BatchNormReLUPoolGradHalfOf(d, 0, p.C, p, dx, y, hdy, idx, mean, variance, gamma, dx, dg, db, sums, false, scratch) // in place
	BatchNormReLUPoolGrad(p, x, kerneltest.Widened(wideY), dy, true, idx, kerneltest.Widened(mean), kerneltest.Widened(variance), kerneltest.Widened(gamma), nil, wantDx, wantDg, wantDb, wantSums, false)
	convert.Widen(d, wideDx, tensor.Bytes(dx))
	kerneltest.CloseTo(t, "dx"+name, kerneltest.Widened(wideDx), wantDx, tol)
	kerneltest.CloseTo(t, "dgamma"+name, kerneltest.Widened(dg), wantDg, 1e-4)
	kerneltest.CloseTo(t, "dbeta"+name, kerneltest.Widened(db), wantDb, 1e-4)
	kerneltest.CloseTo(t, "sums"+name, kerneltest.Widened(sums), wantSums, 1e-3)
}

// A NaN in a window wins it wherever it is, and its gradient goes through.
func TestNormPoolBF16PassesNaN(t *testing.T) { kerneltest.AtBF16Levels(t, atNormPoolBF16PassesNaN) }

func atNormPoolBF16PassesNaN(t *testing.T) {
	for _, w := range []int{4, 20} {
		for _, bad := range []int{0, 1, w, w + 1} {
			p := &pool.Shape{N: 1, C: 1, H: 4, W: w, R: 2, S: 2, StrideH: 2, StrideW: 2}
			x, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, 4*w))
			x[2+bad] = 0x7fc0
			out := w
			y, idx, dx, beta := make([]uint16, out), make([]int32, out), make([]uint16, 4*w), make([]float32, 1)
			dy := make([]uint16, out)
			dy[1] = tensor.BF16FromF32(3)
			BatchNormReLUPoolBF16(p, x, []float32{0}, []float32{1}, nil, nil, y, idx)
			if v := tensor.F32FromBF16(y[1]); v == v || idx[1] != int32(2+bad) {
				t.Errorf("width %d, NaN at %d: the maximum is %v at %d", w, 2+bad, v, idx[1])
			}
			BatchNormReLUPoolGradBF16Of(0, 1, p, make([]uint16, 4*w), y, dy, idx, []float32{0}, []float32{1}, nil, dx, nil, beta, nil, false)
			if beta[0] != 3 {
				t.Errorf("dbeta is %v, want 3", beta[0])
			}
		}
	}
}

func BenchmarkNormPoolBF16(b *testing.B) {
	kerneltest.NeedBF16(b)
	for _, p := range []pool.Shape{{N: 100, C: 16, H: 28, W: 28}, {N: 100, C: 32, H: 14, W: 14}} {
		p.R, p.S, p.StrideH, p.StrideW = 2, 2, 2, 2
		x, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, p.N*p.C*p.H*p.W))
		y, _ := kerneltest.ToBF16(kerneltest.Random[float32](1, len(x)/4))
		dx, idx, mean, invstd := make([]uint16, len(x)), make([]int32, len(y)), make([]float32, p.C), make([]float32, p.C)
		for name, run := range map[string]func(){
			"stats":   func() { BatchNormStatsBF16Of(0, p.C, p.N, p.C, p.H*p.W, x, mean, invstd) },
			"forward": func() { BatchNormReLUPoolBF16(&p, x, mean, invstd, nil, nil, y, idx) },
			"backward": func() {
				BatchNormReLUPoolGradBF16Of(0, p.C, &p, x, y, y, idx, mean, invstd, nil, dx, nil, nil, nil, false)
			},
		} {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", p.C, p.H, p.W, name), func(b *testing.B) {
				for b.Loop() {
					run()
				}
			})
		}
	}
}
