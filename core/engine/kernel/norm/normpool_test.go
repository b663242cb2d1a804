package norm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
)

var normPoolCases = []pool.Shape{
	{N: 3, C: 4, H: 28, W: 28, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 3, H: 14, W: 14, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 6, W: 70, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 8, W: 34, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 4, W: 8, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 4, W: 22, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 2, W: 32, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 5, C: 3, H: 2, W: 2, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 4, W: 16, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 2, H: 7, W: 9, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 1, C: 2, H: 2, W: 2, R: 2, S: 2, StrideH: 2, StrideW: 2},
	{N: 2, C: 3, H: 11, W: 13, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	// more planes than are normalised at a time
	{N: 2, C: 19, H: 31, W: 33, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	{N: 2, C: 21, H: 28, W: 28, R: 4, S: 4, StrideH: 4, StrideW: 4},
	{N: 2, C: 70, H: 21, W: 10, R: 3, S: 3, StrideH: 3, StrideW: 3},
	{N: 3, C: 130, H: 5, W: 5, R: 2, S: 2, StrideH: 2, StrideW: 2, CeilMode: true},
	{N: 2, C: 140, H: 8, W: 8, R: 8, S: 8, StrideH: 8, StrideW: 8},
	{N: 2, C: 2, H: 130, W: 140, R: 2, S: 3, StrideH: 1, StrideW: 1},
}

// The fused passes give what their parts give one after the other.
func TestBatchNormReLUPool(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for i := range normPoolCases {
			p := normPoolCases[i]
			testNormPool[float32](t, &p, 2e-5)
			testNormPool[float64](t, &p, 1e-12)
			p.Prepare()
			testNormPool[float32](t, &p, 2e-5)
		}
	})
}

func testNormPool[T kernel.Float](t *testing.T, p *pool.Shape, tol float64) {
	t.Helper()
	name := fmt.Sprintf(" of %+v", *p)
	hw, in, out := p.H*p.W, p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	x, gamma, beta, dy := kerneltest.Random[T](1, in), kerneltest.Random[T](2, p.C), kerneltest.Random[T](3, p.C), kerneltest.Random[T](4, out)
	mean, invstd := kerneltest.Random[T](5, p.C), kerneltest.Random[T](6, p.C)
	for _, affine := range []string{"random", "extreme", "none"} {
		switch affine {
		case "extreme": // outputs that do not tell x
			gamma[0], beta[0] = 0, 1
			gamma[p.C-1], beta[p.C-1] = 1, 30
		case "none":
			gamma, beta = nil, nil
		}
		norm, wantY, wantIdx := make([]T, in), make([]T, out), make([]int32, out)
		BatchNormApply(p.N, p.C, hw, x, mean, invstd, gamma, beta, norm)
		elementwise.ReLU(norm, norm)
		pool.MaxPool2D(p, norm, wantY, wantIdx, kerneltest.Poisoned[T](p.MaxScratch()))
		room, idx := kerneltest.Exactly[T](out), make([]int32, out)
		y := room.Room
		BatchNormReLUPool(p, x, mean, invstd, gamma, beta, y, idx, kerneltest.Poisoned[T](BatchNormReLUPoolScratch(p)))
		room.Check(t, "y"+name)
		kerneltest.CloseTo(t, "y"+name, y, wantY, tol)
		for j, v := range wantY {
			if v > 0 && idx[j] != wantIdx[j] {
				t.Fatalf("place %d%s is %d, want %d", j, name, idx[j], wantIdx[j])
			}
		}
		wantDx, wantDg, wantDb := make([]T, in), kerneltest.Random[T](8, p.C), kerneltest.Random[T](9, p.C)
		pool.MaxPool2DGrad(p, dy, wantIdx, wantDx, kerneltest.Poisoned[T](p.MaxGradScratch()))
		elementwise.ReLUGrad(norm, wantDx, wantDx)
		BatchNormGrad(p.N, p.C, hw, x, wantDx, mean, invstd, gamma, wantDx, wantDg, wantDb, true)
		dx, dg, db, sums := append([]T(nil), x...), kerneltest.Random[T](8, p.C), kerneltest.Random[T](9, p.C), make([]T, p.C)
		BatchNormReLUPoolGrad(p, dx, y, dy, false, idx, mean, invstd, gamma, beta, dx, dg, db, sums, true) // in place
		kerneltest.CloseTo(t, "dx"+name, dx, wantDx, tol)
		kerneltest.CloseTo(t, "dgamma"+name, dg, wantDg, 10*tol)
		kerneltest.CloseTo(t, "dbeta"+name, db, wantDb, 10*tol)
		bias := conv.Shape{N: p.N, C: 1, H: p.H, W: p.W, K: p.C, R: 1, S: 1, StrideH: 1, StrideW: 1}
		wantSums := make([]T, p.C)
		conv.GradBias(&bias, wantDx, wantSums, false)
		kerneltest.CloseTo(t, "sums"+name, sums, wantSums, 10*tol)
	}
}

// TestBatchNormReLUPoolGradInShares has the sums of some images and those of the others, which together give the gradient.
func TestBatchNormReLUPoolGradInShares(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, rounded := range []bool{false, true} {
			for _, c := range []int{1, 5, mostChannels, mostChannels + 3} {
				for _, p := range []pool.Shape{
					{N: 3, C: c, H: 6, W: 8, R: 2, S: 2, StrideH: 2, StrideW: 2},
					{N: 4, C: c, H: 7, W: 7, R: 3, S: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
				} {
					p.Prepare()
					testNormPoolGradShares[float32](t, p, rounded, 1e-5)
					testNormPoolGradShares[float64](t, p, rounded, 1e-12)
				}
			}
		}
	})
}

// testNormPoolGradShares compares the gradient of all images with that in a share of one image and one of the others.
func testNormPoolGradShares[T kernel.Float](t *testing.T, p pool.Shape, rounded bool, tol float64) {
	t.Helper()
	name := fmt.Sprintf(" of %+v, rounded %v", p, rounded)
	in, out := p.C*p.H*p.W, p.C*p.OutH()*p.OutW()
	x, dy := kerneltest.Random[T](1, p.N*in), kerneltest.Random[T](2, p.N*out)
	mean, invstd := kerneltest.Random[T](3, p.C), kerneltest.Random[T](4, p.C)
	gamma, beta := kerneltest.Random[T](5, p.C), kerneltest.Random[T](6, p.C)
	y, idx := make([]T, p.N*out), make([]int32, p.N*out)
	BatchNormReLUPool(&p, x, mean, invstd, gamma, beta, y, idx, make([]T, BatchNormReLUPoolScratch(&p)))
	want, wantDg, wantDb, wantSums := make([]T, p.N*in), make([]T, p.C), make([]T, p.C), make([]T, p.C)
	BatchNormReLUPoolGrad(&p, x, y, dy, rounded, idx, mean, invstd, gamma, beta, want, wantDg, wantDb, wantSums, false)

	var sums, dots, totals [2][]float64
	shares := [2]pool.Shape{p, p}
	shares[0].N, shares[1].N = 1, p.N-1
	for i := range shares {
		sums[i], dots[i], totals[i] = make([]float64, p.C), make([]float64, p.C), make([]float64, p.C)
		BatchNormReLUPoolGradSums(&shares[i], x[i*in:], y[i*out:], dy[i*out:], rounded, idx[i*out:], mean, invstd, gamma, beta, sums[i], dots[i])
	}
	for ch := range p.C {
		sums[0][ch] += sums[1][ch]
		dots[0][ch] += dots[1][ch]
	}
	dx, dg, db, dxSums := make([]T, p.N*in), make([]T, p.C), make([]T, p.C), make([]T, p.C)
	BatchNormGradAffine(0, p.C, sums[0], dots[0], invstd, dg, db, false)
	for i := range shares {
		BatchNormReLUPoolGradInput(&shares[i], float64(p.N*p.H*p.W), x[i*in:], y[i*out:], dy[i*out:], rounded, idx[i*out:], mean, invstd, gamma, dx[i*in:], sums[0], dots[0], totals[i])
	}
	for ch := range dxSums {
		dxSums[ch] = T(totals[0][ch] + totals[1][ch])
	}
	kerneltest.CloseTo(t, "dx"+name, dx, want, tol)
	kerneltest.CloseTo(t, "dgamma"+name, dg, wantDg, 10*tol)
	kerneltest.CloseTo(t, "dbeta"+name, db, wantDb, 10*tol)
	kerneltest.CloseTo(t, "sums"+name, dxSums, wantSums, 100*tol)
}

// A NaN in a window wins it, and its gradient goes through.
func TestBatchNormReLUPoolPassesNaN(t *testing.T) {
	nan := float32(math.NaN())
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		p := &pool.Shape{N: 1, C: 1, H: 4, W: 4, R: 2, S: 2, StrideH: 2, StrideW: 2}
		x := []float32{1, 2, 3, 4, 5, nan, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}
		y, idx, dx, one, zero := make([]float32, 4), make([]int32, 4), make([]float32, 16), []float32{1}, []float32{0}
		BatchNormReLUPool(p, x, zero, one, nil, nil, y, idx, make([]float32, 16))
		kerneltest.SameBits(t, "y", y, []float32{nan, 8, 0, 0})
		if idx[0] != 5 || idx[1] != 7 {
			t.Errorf("places %v", idx)
		}
		beta := make([]float32, 1)
		BatchNormReLUPoolGrad(p, make([]float32, 16), y, []float32{1, 2, 4, 8}, false, idx, zero, one, nil, nil, dx, nil, beta, nil, false)
		if beta[0] != 3 {
			t.Errorf("dbeta is %v, want 3", beta[0])
		}
	})
}

// TestBatchNormReLUPoolStaysInside has tensors beside pages that may not be touched: kernels read whole vectors of all
// planes but the last, and write no more than the plane has.
func TestBatchNormReLUPoolStaysInside(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, w := range []int{2, 6, 8, 10, 14, 16, 22, 28, 30, 40} {
			for _, affine := range []float32{1, 0} { // by outputs, which a gain of 0 hides
				for _, atEnd := range []bool{false, true} {
					p := pool.Shape{N: 2, C: 3, H: 6, W: w, R: 2, S: 2, StrideH: 2, StrideW: 2}
					p.Prepare()
					testNormPoolInside(t, &p, affine, atEnd)
				}
			}
		}
	})
}

// testNormPoolInside compares both passes on guarded memory with those elsewhere.
func testNormPoolInside(t *testing.T, p *pool.Shape, gain float32, atEnd bool) {
	t.Helper()
	name := fmt.Sprintf(" of %+v, gain %v, at the end %v", *p, gain, atEnd)
	in, out := p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
	type tensors struct {
		x, y, dy, dx []float32
		idx          []int32
	}
	inside := tensors{idx: kerneltest.Guarded[int32](t, out, atEnd)}
	for _, v := range []*[]float32{&inside.x, &inside.dx} {
		*v = kerneltest.Guarded[float32](t, in, atEnd)
	}
	for _, v := range []*[]float32{&inside.y, &inside.dy} {
		*v = kerneltest.Guarded[float32](t, out, atEnd)
	}
	other := tensors{make([]float32, in), make([]float32, out), make([]float32, out), make([]float32, in), make([]int32, out)}
	mean, invstd := kerneltest.Random[float32](5, p.C), kerneltest.Random[float32](6, p.C)
	gamma, beta := make([]float32, p.C), kerneltest.Random[float32](7, p.C)
	for i := range gamma {
		gamma[i] = gain
	}
	scratch := make([]float32, BatchNormReLUPoolScratch(p))
	grads := make([]float32, 3*p.C)
	for _, s := range []tensors{inside, other} {
		copy(s.x, kerneltest.Random[float32](1, in))
		copy(s.dy, kerneltest.Random[float32](2, out))
		BatchNormReLUPool(p, s.x, mean, invstd, gamma, beta, s.y, s.idx, scratch)
		BatchNormReLUPoolGrad(p, s.x, s.y, s.dy, false, s.idx, mean, invstd, gamma, beta, s.dx, grads[:p.C], grads[p.C:2*p.C], grads[2*p.C:], false)
	}
	kerneltest.SameBits(t, "y"+name, inside.y, other.y)
	kerneltest.SameBits(t, "dx"+name, inside.dx, other.dx)
}

// TestAnyNormStaysInside has batch norms and group norms of any size beside pages that may not be touched.
func TestAnyNormStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		const room = 1 << 17
		g, r := kerneltest.NewGuardedRoom(t, 11, room), rand.New(rand.NewPCG(4, 9))
		for range kerneltest.Cases(1500) {
			groups, each, n, hw := 1+r.IntN(6), 1+r.IntN(9), 1+r.IntN(5), 1+r.IntN([]int{1, 9, 70, 300}[r.IntN(4)])
			c := groups * each
			all := n * c * hw
			if all > room {
				continue
			}
			what, scratch := fmt.Sprintf("%d images of %d channels of %d pixels, %d groups", n, c, hw, groups), make([]float32, FunctionElems)
			sizes := []int{all, all, all, all, c, c, c, c, c, c, all}
			g.Test(t, "batch norm, "+what, 0, sizes, func(v [][]float32, _ bool) {
				x, dy, y, dx, mean, invstd, gamma, beta, dgamma, dbeta, residual := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10]
				BatchNormStats(n, c, hw, x, mean, invstd)
				BatchNormApply(n, c, hw, x, mean, invstd, gamma, beta, y)
				BatchNormGrad(n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, true)
				BatchNormReLU(n, c, hw, x, mean, invstd, gamma, beta, residual, y)
				BatchNormReLUGradOf(0, c, n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, residual, false)
				for _, f := range []*Function[float32]{functions[float32]()["relu6"], functions[float32]()["silu"]} {
					BatchNormFunction(n, c, hw, x, mean, invstd, gamma, beta, f, y)
					BatchNormFunctionGradOf(0, c, n, c, hw, x, dy, mean, invstd, gamma, beta, f, dx, dgamma, dbeta, true, residual, scratch)
					BatchNormFunctionGradOf(0, c, n, c, hw, x, dy, mean, invstd, gamma, beta, f, dx, dgamma, dbeta, true, nil, scratch)
				}
			})
			sizes[4], sizes[5] = n*groups, n*groups
			g.Test(t, "group norm, "+what, 0, sizes, func(v [][]float32, _ bool) {
				s := GroupShape{N: n, C: c, HW: hw, Groups: groups}
				GroupNorm(&s, v[0], v[6], v[7], 1e-5, v[2], v[4], v[5])
				GroupNormGradOf(0, groups, &s, v[0], v[1], v[4], v[5], v[6], v[3], v[8], v[9], true)
			})
		}
	})
}

// TestAnyPooledNormStaysInside has batch norms with pooled results there.
func TestAnyPooledNormStaysInside(t *testing.T) {
	kerneltest.AtEachWidth(t, func(t *testing.T) {
		g, r := kerneltest.NewGuardedRoom(t, 14, 1<<17), rand.New(rand.NewPCG(4, 11))
		for range kerneltest.Cases(600) {
			size := 2 + r.IntN(3)
			p := pool.Shape{N: 1 + r.IntN(4), C: 1 + r.IntN(20), R: size, S: size, StrideH: size, StrideW: size, H: size + r.IntN(20), W: size + r.IntN(40)}
			if r.IntN(3) == 0 {
				p.StrideH, p.StrideW = 2, 2
			}
			p.Prepare()
			c, all, out := p.C, p.N*p.C*p.H*p.W, p.N*p.C*p.OutH()*p.OutW()
			if all > 1<<17 {
				continue
			}
			sizes := []int{all, out, out, all, c, c, c, c, c, c, out, out, BatchNormReLUPoolScratch(&p)}
			g.Test(t, fmt.Sprintf("%+v", p), 2, sizes, func(v [][]float32, _ bool) {
				x, dy, y, dx, mean, invstd, gamma, beta, dgamma, dbeta := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
				idx := unsafe.Slice((*int32)(unsafe.Pointer(&v[10][0])), out)
				BatchNormStats(p.N, c, p.H*p.W, x, mean, invstd)
				BatchNormReLUPool(&p, x, mean, invstd, gamma, beta, y, idx, v[12])
				BatchNormReLUPoolGrad(&p, x, y, dy, false, idx, mean, invstd, gamma, beta, dx, dgamma, dbeta, v[11], false)
			})
		}
	})
}
