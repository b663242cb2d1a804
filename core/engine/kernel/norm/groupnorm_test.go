package norm

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/tensor"
)

var groupShapes = []GroupShape{
	{N: 2, C: 6, HW: 1, Groups: 2}, {N: 3, C: 140, HW: 1, Groups: 1}, {N: 2, C: 4, HW: 5, Groups: 4}, {N: 1, C: 6, HW: 16, Groups: 3},
	{N: 3, C: 10, HW: 49, Groups: 5}, {N: 2, C: 130, HW: 17, Groups: 2}, {N: 2, C: 4, HW: 300, Groups: 2}, {N: 1, C: 3, HW: 260, Groups: 1},
	{N: 3, C: 9, HW: 49, Groups: 3}, {N: 1, C: 5, HW: 500, Groups: 1},
	{N: 2, C: 70, HW: 9, Groups: 70}, {N: 2, C: 150, HW: 4, Groups: 50}, {N: 1, C: 96, HW: 64, Groups: 3}, {N: 3, C: 12, HW: 16, Groups: 6},
}

// Groups have the bits that they have when others, and other samples, are computed elsewhere.
func TestGroupsAlone(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, s := range groupShapes {
			size := s.N * s.C * s.HW
			x, dy, gamma := kerneltest.Random[float32](1, size), kerneltest.Random[float32](2, size), kerneltest.Random[float32](3, s.C)
			want := groupNormOf(&s, x, dy, gamma, gamma, make([]float32, size), make([]float32, size))
			got := make([][]float32, len(want))
			for i, w := range want {
				got[i] = make([]float32, len(w))
			}
			one, sample := s, s.C*s.HW
			one.N = 1
			for i := range s.N {
				GroupNorm(&one, x[i*sample:], gamma, gamma, 1e-5, got[0][i*sample:], got[1][i*s.Groups:], got[2][i*s.Groups:])
			}
			for _, accumulate := range []bool{false, true} {
				for i := range s.Groups {
					GroupNormGradOf(i, i+1, &s, x, dy, got[1], got[2], gamma, got[3], got[4], got[5], accumulate)
				}
			}
			for i, name := range []string{"y", "mean", "invstd", "dx", "dgamma", "dbeta"} {
				kerneltest.SameBits(t, fmt.Sprintf("%s of %+v", name, s), got[i], want[i])
			}
		}
	})
}

// Groups of any number of channels and pixels, with a mean that is large against the
// deviation, give what float64 gives, and nothing behind them is written.
func TestGroupNorm(t *testing.T) {
	for _, offset := range []float32{0, 30} {
		for _, s := range groupShapes {
			size := s.N * s.C * s.HW
			x, dy := kerneltest.Random[float32](1, size), kerneltest.Random[float32](2, size)
			gamma, beta := kerneltest.Random[float32](3, s.C), kerneltest.Random[float32](4, s.C)
			for i := range x {
				x[i] += offset
			}
			for _, affine := range []bool{true, false} {
				if !affine {
					gamma, beta = nil, nil
				}
				want := groupNormOf(&s, kerneltest.Widened(x), kerneltest.Widened(dy), kerneltest.Widened(gamma), kerneltest.Widened(beta), make([]float64, size), make([]float64, size))
				kerneltest.AtEachLevel(t, func(t *testing.T) {
					y, dx := kerneltest.Exactly[float32](size), kerneltest.Exactly[float32](size)
					got := groupNormOf(&s, x, dy, gamma, beta, y.Room, dx.Room)
					for i, name := range []string{"y", "mean", "invstd", "dx", "dgamma", "dbeta"} {
						kerneltest.Nearly(t, fmt.Sprintf("%s of %+v around %v", name, s, offset), got[i], want[i], 1e-4)
					}
					y.Check(t, "y")
					dx.Check(t, "dx")
					copy(dx.Room, dy)
					GroupNormGradOf(0, s.Groups, &s, x, dx.Room, got[1], got[2], gamma, dx.Room, nil, nil, false)
					kerneltest.Nearly(t, "dx over dy", dx.Room, want[3], 1e-4)
				})
			}
		}
	}
}

// groupNormOf runs forward and, twice into the same gradients, backward.
func groupNormOf[T kernel.Float](s *GroupShape, x, dy, gamma, beta, y, dx []T) [][]T {
	if len(gamma) == 0 {
		gamma, beta = nil, nil
	}
	out := [][]T{y, make([]T, s.N*s.Groups), make([]T, s.N*s.Groups), dx, make([]T, s.C), make([]T, s.C)}
	GroupNorm(s, x, gamma, beta, 1e-5, y, out[1], out[2])
	GroupNormGradOf(0, s.Groups, s, x, dy, out[1], out[2], gamma, dx, out[4], out[5], false)
	GroupNormGradOf(0, s.Groups, s, x, dy, out[1], out[2], gamma, dx, out[4], out[5], true)
	return out
}

// A batch of features, whose planes have one element, gives what float64 gives in place of
// planes: statistics of many rows, both gradients, with and without a ReLU.
func TestBatchNormOfFeatures(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{2, 3, 64, 65, 300} {
			for _, c := range []int{1, 7, 8, 17, 64, 270} {
				testFeatures(t, n, c)
				testNormReLU[float32](t, n, c, 1, 1e-4)
			}
		}
	})
}

func testFeatures(t *testing.T, n, c int) {
	t.Helper()
	x, dy, gamma, beta := kerneltest.Random[float32](1, n*c), kerneltest.Random[float32](2, n*c), kerneltest.Random[float32](3, c), kerneltest.Random[float32](4, c)
	for i := range x {
		x[i] += float32(10 * (i % c % 7))
	}
	want := featuresOf(n, c, kerneltest.Widened(x), kerneltest.Widened(dy), kerneltest.Widened(gamma), kerneltest.Widened(beta))
	for i, got := range featuresOf(n, c, x, dy, gamma, beta) {
		name := []string{"mean", "variance", "y", "dx", "dgamma", "dbeta", "split dx"}[i]
		if n == 2 && i > 2 {
			continue // of two elements the gradient is 0 but for epsilon and rounding
		}
		kerneltest.Nearly(t, fmt.Sprintf("%s of %d rows of %d", name, n, c), got, want[i], 2e-4)
	}
}

func featuresOf[T kernel.Float](n, c int, x, dy, gamma, beta []T) [][]T {
	mean, variance, scale := make([]T, c), make([]T, c), make([]T, c)
	BatchNormStats(n, c, 1, x, mean, variance)
	for i := range scale {
		scale[i] = 1 / (variance[i] + 0.5)
	}
	y, dx, split, dgamma, dbeta, sums, dots := make([]T, n*c), make([]T, n*c), make([]T, n*c), make([]T, c), make([]T, c), make([]T, c), make([]T, c)
	BatchNormApply(n, c, 1, x, mean, scale, gamma, beta, y)
	BatchNormGrad(n, c, 1, x, dy, mean, scale, gamma, dx, dgamma, dbeta, false)
	BatchNormGrad(n, c, 1, x, dy, mean, scale, gamma, dx, dgamma, dbeta, true)
	BatchNormGradReduce(n, c, 1, x, dy, mean, sums, dots)
	BatchNormGradInput(n, c, 1, float64(n), x, dy, mean, scale, gamma, sums, dots, split)
	return [][]T{mean, variance, y, dx, dgamma, dbeta, split}
}

// The bytes count what is read and what is written.
func BenchmarkGroupNorm(b *testing.B) {
	const n = 1 << 19
	x, dy, y := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), make([]float32, n)
	for _, hw := range []int{64, 1024} {
		s := &GroupShape{N: n / (64 * hw), C: 64, HW: hw, Groups: 16}
		gamma, beta, mean, invstd := make([]float32, s.C), make([]float32, s.C), make([]float32, s.N*s.Groups), make([]float32, s.N*s.Groups)
		b.Run(fmt.Sprintf("forward/%d", hw), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 8*n, func() { GroupNorm(s, x, gamma, beta, 1e-5, y, mean, invstd) })
		})
		b.Run(fmt.Sprintf("backward/%d", hw), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 12*n, func() { GroupNormGradOf(0, s.Groups, s, x, dy, mean, invstd, gamma, y, gamma, beta, true) })
		})
	}
}

// Groups of a half type, of few elements and of more than are widened at a time, give what float64 gives of the same values; threads may
// share them in any way.
func TestGroupNormOfHalfTypes(t *testing.T) {
	shapes := []GroupShape{{3, 12, 16, 4}, {5, 6, 1, 3}, {2, 64, 100, 4}, {2, 8, 1500, 2}, {2, 96, 64, 96}}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			for _, s := range shapes {
				halfGroups(t, d, &s)
			}
		}
	})
}

func halfGroups(t *testing.T, d tensor.DType, s *GroupShape) {
	t.Helper()
	n, groups := s.N*s.C*s.HW, s.N*s.Groups
	x, dy, gamma, beta := newHalves(d, 1, n), newHalves(d, 2, n), kerneltest.Random[float32](3, s.C), kerneltest.Random[float32](4, s.C)
	wx, wdy, wgamma := kerneltest.Widened(x.wide), kerneltest.Widened(dy.wide), kerneltest.Widened(gamma)
	room, tolerance := kerneltest.Poisoned[float32](2*s.HalfRoom()), map[tensor.DType]float64{tensor.F16: 1e-3, tensor.BF16: 8e-3}[d]
	check := func(what string, got []float32, want []float64, tolerance float64) {
		t.Helper()
		kerneltest.CloseTo(t, fmt.Sprintf("%v of %+v: %s", d, *s, what), kerneltest.Widened(got), want, tolerance)
	}
	wide := make([]float32, n)
	y, mean, invstd := make([]uint16, n), make([]float32, groups), make([]float32, groups)
	wy, wmean, winvstd := make([]float64, n), make([]float64, groups), make([]float64, groups)
	GroupNormHalf(d, s, x.half, gamma, beta, 1e-3, y, mean, invstd, room)
	GroupNorm(s, wx, wgamma, kerneltest.Widened(beta), 1e-3, wy, wmean, winvstd)
	convert.Widen(d, wide, tensor.Bytes(y))
	check("y", wide, wy, tolerance)
	check("mean", mean, wmean, 1e-4)
	check("invstd", invstd, winvstd, 1e-4)
	for _, parts := range []int{1, s.Groups} {
		dx, dgamma, dbeta := append([]uint16(nil), dy.half...), kerneltest.Random[float32](5, s.C), kerneltest.Random[float32](6, s.C)
		wdx, wdgamma, wdbeta := make([]float64, n), kerneltest.Widened(dgamma), kerneltest.Widened(dbeta)
		for p := range parts { // in place
			GroupNormGradHalfOf(d, p*s.Groups/parts, (p+1)*s.Groups/parts, s, x.half, dx, mean, invstd, gamma, dx, dgamma, dbeta, parts == 1, room)
		}
		GroupNormGradOf(0, s.Groups, s, wx, wdy, wmean, winvstd, wgamma, wdx, wdgamma, wdbeta, parts == 1)
		convert.Widen(d, wide, tensor.Bytes(dx))
		check("dx", wide, wdx, tolerance)
		check("dgamma", dgamma, wdgamma, 1e-3)
		check("dbeta", dbeta, wdbeta, 1e-3)
	}
}
