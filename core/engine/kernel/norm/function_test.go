package norm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// A function behind a batch norm has the bits of both one after the other, forward and backward, in place and not, and
// where backward makes the output again: for planes of one pixel, few, and more than are computed together.
func TestBatchNormFunction(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 9, 26} {
			for _, hw := range []int{1, 2, 9, 15, 16, 17, 49, 130} {
				testNormFunctions[float32](t, n, 67, hw)
				testNormFunctions[float64](t, n, 67, hw)
			}
		}
		testNormFunctions[float32](t, 3, 1030, 1)
		testNormFunctions[float32](t, 2, 300, 16)
		testNormFunctions[float32](t, 2, 3, FunctionElems)
		testNormFunctions[float32](t, 2, 3, FunctionElems+21)
		testNormFunctions[float64](t, 2, 2, FunctionElems+21)
	})
}

func testNormFunctions[T kernel.Float](t *testing.T, n, c, hw int) {
	t.Helper()
	size := n * c * hw
	for name, f := range functions[T]() {
		testNormFunction(t, name, f, n, c, hw, kerneltest.Random[T](1, size))
	}
	relu6, silu := functions[float32]()["relu6"], functions[float32]()["silu"]
	testNormFunction(t, "relu6 of awkward numbers", relu6, n, c, hw, kerneltest.Awkward(1, size))
	testNormFunction(t, "silu of awkward numbers", silu, n, c, hw, kerneltest.Awkward(1, size))
}

// functions are one without kernels of its own, one that has its slope with it, and those with kernels.
func functions[T kernel.Float]() map[string]*Function[T] {
	silu := Function[T]{Forward: elementwise.SiLU[T], Gradient: elementwise.SiLUGrad[T], Name: SiLU}
	withSlope := silu
	withSlope.Name = OtherFunction
	if _, ok := any(T(0)).(float32); ok {
		withSlope.AndSlope = func(x, y []T) { elementwise.SiLUAndSlope(kernel.As32(x), kernel.As32(y)) }
	}
	return map[string]*Function[T]{
		"leaky ReLU": {
			Forward: func(x, y []T) { elementwise.LeakyReLU(x, y, 0.25) },
			Gradient: func(x, dy, dx []T) {
				elementwise.LeakyReLUGrad(x, dy, dx, 0.25)
				clear(x) // which is the function's to overwrite
			},
		},
		"relu6":              {Forward: elementwise.ReLU6[T], Gradient: elementwise.ReLU6Grad[T], Name: ReLU6},
		"silu":               &silu,
		"silu and its slope": &withSlope,
	}
}

func testNormFunction[T kernel.Float](t *testing.T, name string, f *Function[T], n, c, hw int, x []T) {
	t.Helper()
	size := n * c * hw
	dy, mean, invstd := kerneltest.Random[T](2, size), kerneltest.Random[T](3, c), kerneltest.Random[T](4, c)
	for j := range invstd {
		invstd[j] *= 8 // for values beyond 6
	}
	for _, gamma := range [][]T{kerneltest.Random[T](5, c), nil} {
		name := fmt.Sprintf(" of %s of %d images of %d planes of %d, gamma %v", name, n, c, hw, gamma != nil)
		z, want := make([]T, size), make([]T, size)
		BatchNormApply(n, c, hw, x, mean, invstd, gamma, gamma, z)
		f.Forward(z, want)
		y := kerneltest.Exactly[T](size)
		BatchNormFunction(n, c, hw, x, mean, invstd, gamma, gamma, f, y.Room)
		sameNumbers(t, "y"+name, y.Room, want)
		y.Check(t, "y"+name)
		over := slices.Clone(x)
		BatchNormFunction(n, c, hw, over, mean, invstd, gamma, gamma, f, over)
		sameNumbers(t, "y over x"+name, over, want)

		d, wantDX, wantDG, wantDB := make([]T, size), make([]T, size), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c)
		f.Gradient(z, dy, d)
		BatchNormGrad(n, c, hw, x, d, mean, invstd, gamma, wantDX, wantDG, wantDB, true)
		for _, mode := range []struct{ over, again bool }{{}, {over: true}, {again: true}, {over: true, again: true}} {
			name := fmt.Sprintf("%s, %+v", name, mode)
			dx, dg, db, from, again := kerneltest.Exactly[T](size), kerneltest.Random[T](7, c), kerneltest.Random[T](8, c), dy, kerneltest.Exactly[T](size)
			if mode.over {
				copy(dx.Room, dy)
				from = dx.Room
			}
			var to []T
			if mode.again {
				to = again.Room
			}
			scratch := kerneltest.Exactly[T](FunctionElems)
			for _, part := range [][2]int{{0, c / 3}, {c / 3, c}} { // as threads share them
				BatchNormFunctionGradOf(part[0], part[1], n, c, hw, x, from, mean, invstd, gamma, gamma, f, dx.Room, dg, db, true, to, scratch.Room)
			}
			sameNumbers(t, "dx"+name, dx.Room, wantDX)
			sameNumbers(t, "dgamma"+name, dg, wantDG)
			sameNumbers(t, "dbeta"+name, db, wantDB)
			dx.Check(t, "dx"+name)
			scratch.Check(t, "scratch"+name)
			if mode.again {
				sameNumbers(t, "y again"+name, to, want)
				again.Check(t, "y again"+name)
			}
		}
	}
}

// sameNumbers compares bits, of which NaN may have any.
func sameNumbers[T kernel.Float](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i, v := range got {
		if v != want[i] && (v == v || want[i] == want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, v, want[i])
		}
	}
}

// Steps of training allocate nothing.
func TestBatchNormFunctionDoesNotAllocate(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		const n, c = 9, 20
		for _, hw := range []int{1, 4, 49, FunctionElems + 21} {
			x, dy, factors, scratch := make([]float32, n*c*hw), make([]float32, n*c*hw), make([]float32, c), make([]float32, FunctionElems)
			for name, f := range functions[float32]() {
				if n := testing.AllocsPerRun(2, func() {
					BatchNormFunction(n, c, hw, x, factors, factors, factors, factors, f, x)
					BatchNormFunctionGradOf(0, c, n, c, hw, x, dy, factors, factors, factors, factors, f, dy, factors, factors, true, nil, scratch)
				}); n != 0 {
					t.Errorf("%s of planes of %d: %v allocations", name, hw, n)
				}
			}
		}
	})
}
