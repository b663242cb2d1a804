package norm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Batch norm with a function behind it has the bits of both one after the other, forward and backward, in place and not,
// for planes of one pixel, few, and more than are computed together.
func TestBatchNormFunction(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 9, 26} {
			for _, hw := range []int{1, 2, 9, 15, 16, 17, 49, 130} {
				testNormFunction[float32](t, n, 67, hw)
				testNormFunction[float64](t, n, 67, hw)
			}
		}
		testNormFunction[float32](t, 3, 1030, 1)
		testNormFunction[float32](t, 2, 300, 16)
		testNormFunction[float32](t, 2, 3, FunctionElems)
		testNormFunction[float32](t, 2, 3, FunctionElems+21)
		testNormFunction[float64](t, 2, 2, FunctionElems+21)
	})
}

func testNormFunction[T kernel.Float](t *testing.T, n, c, hw int) {
	t.Helper()
	size := n * c * hw
	x, dy, mean, invstd := kerneltest.Random[T](1, size), kerneltest.Random[T](2, size), kerneltest.Random[T](3, c), kerneltest.Random[T](4, c)
	function := func(x, y []T) { elementwise.LeakyReLU(x, y, 0.25) }
	slope := func(x, dy, dx []T) {
		elementwise.LeakyReLUGrad(x, dy, dx, 0.25)
		clear(x) // which is the function's to overwrite
	}
	for _, gamma := range [][]T{kerneltest.Random[T](5, c), nil} {
		name := fmt.Sprintf(" of %d images of %d planes of %d, gamma %v", n, c, hw, gamma != nil)
		z, want := make([]T, size), make([]T, size)
		BatchNormApply(n, c, hw, x, mean, invstd, gamma, gamma, z)
		function(z, want)
		y := kerneltest.Exactly[T](size)
		BatchNormFunction(n, c, hw, x, mean, invstd, gamma, gamma, function, y.Room)
		kerneltest.CloseTo(t, "y"+name, y.Room, want, 0)
		y.Check(t, "y"+name)
		over := slices.Clone(x)
		BatchNormFunction(n, c, hw, over, mean, invstd, gamma, gamma, function, over)
		kerneltest.CloseTo(t, "y over x"+name, over, want, 0)

		d, wantDG, wantDB := make([]T, size), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c)
		slope(z, dy, d)
		BatchNormGrad(n, c, hw, x, d, mean, invstd, gamma, want, wantDG, wantDB, true)
		for _, over := range []bool{false, true} {
			dx, dg, db, from := kerneltest.Exactly[T](size), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c), dy
			if over {
				copy(dx.Room, dy)
				from = dx.Room
			}
			scratch := kerneltest.Exactly[T](FunctionElems)
			for _, part := range [][2]int{{0, c / 3}, {c / 3, c}} { // as threads share them
				BatchNormFunctionGradOf(part[0], part[1], n, c, hw, x, from, mean, invstd, gamma, gamma, slope, dx.Room, dg, db, true, scratch.Room)
			}
			kerneltest.CloseTo(t, "dx"+name, dx.Room, want, 0)
			kerneltest.CloseTo(t, "dgamma"+name, dg, wantDG, 0)
			kerneltest.CloseTo(t, "dbeta"+name, db, wantDB, 0)
			dx.Check(t, "dx"+name)
			scratch.Check(t, "scratch"+name)
		}
	}
}

// Clipping on the way has the bits of clipping behind, NaN and infinities among them.
func TestBatchNormReLU6(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, hw := range []int{1, 9, 16, 17, 64, 131} {
			const n, c = 3, 67
			x, mean, invstd, gamma := kerneltest.Awkward(1, n*c*hw), kerneltest.Random[float32](2, c), kerneltest.Random[float32](3, c), kerneltest.Random[float32](4, c)
			for j := range invstd {
				invstd[j] *= 8 // for values beyond 6
			}
			want, y := make([]float32, len(x)), kerneltest.Exactly[float32](len(x))
			BatchNormApply(n, c, hw, x, mean, invstd, gamma, nil, want)
			elementwise.ReLU6(want, want)
			BatchNormReLU6(n, c, hw, x, mean, invstd, gamma, nil, y.Room)
			kerneltest.SameBits(t, fmt.Sprintf("planes of %d", hw), y.Room, want)
			y.Check(t, "y")
			if !slices.Contains(want, 6) || !slices.Contains(want, 0) {
				t.Fatal("nothing is clipped")
			}
		}
	})
}

// Steps of training allocate nothing.
func TestBatchNormFunctionDoesNotAllocate(t *testing.T) {
	function := func(x, y []float32) { elementwise.LeakyReLU(x, y, 0.25) }
	slope := func(x, dy, dx []float32) { elementwise.LeakyReLUGrad(x, dy, dx, 0.25) }
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		const n, c = 9, 20
		for _, hw := range []int{1, 4, 49, FunctionElems + 21} {
			x, dy, factors, scratch := make([]float32, n*c*hw), make([]float32, n*c*hw), make([]float32, c), make([]float32, FunctionElems)
			if n := testing.AllocsPerRun(2, func() {
				BatchNormFunction(n, c, hw, x, factors, factors, factors, factors, function, x)
				BatchNormReLU6(n, c, hw, x, factors, factors, factors, factors, x)
				BatchNormFunctionGradOf(0, c, n, c, hw, x, dy, factors, factors, factors, factors, slope, dy, factors, factors, true, scratch)
			}); n != 0 {
				t.Errorf("planes of %d: %v allocations", hw, n)
			}
		}
	})
}
