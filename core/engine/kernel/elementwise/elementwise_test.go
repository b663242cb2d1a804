package elementwise

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Every elementwise kernel gives the bits of the reference, in place too.
func TestElementwiseBits(t *testing.T) {
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){
		"Add":               func(a, b, dst []float32) { Add(a, b, dst) },
		"AddTo":             func(a, _, dst []float32) { AddTo(dst, a) },
		"Mul":               func(a, b, dst []float32) { Mul(a, b, dst) },
		"Scale":             func(_, _, dst []float32) { Scale(dst, 1.7) },
		"Axpy":              func(a, _, dst []float32) { Axpy(dst, -0.3, a) },
		"ReLU":              func(a, _, dst []float32) { ReLU(a, dst) },
		"ReLU in place":     func(_, _, dst []float32) { ReLU(dst, dst) },
		"ReLUGrad":          func(a, b, dst []float32) { ReLUGrad(a, b, dst) },
		"ReLUGrad in place": func(a, _, dst []float32) { ReLUGrad(a, dst, dst) },
		"ReLU6":             func(a, _, dst []float32) { ReLU6(a, dst) },
		"ReLU6Grad":         func(a, b, dst []float32) { ReLU6Grad(a, b, dst) },
		"LeakyReLU":         func(a, _, dst []float32) { LeakyReLU(a, dst, 0.01) },
		"LeakyReLUGrad":     func(a, b, dst []float32) { LeakyReLUGrad(a, b, dst, 0.01) },
		"Sigmoid":           func(a, _, dst []float32) { Sigmoid(a, dst) },
		"SigmoidGrad":       func(a, b, dst []float32) { SigmoidGrad(a, b, dst) },
		"Tanh":              func(a, _, dst []float32) { Tanh(a, dst) },
		"Tanh in place":     func(_, _, dst []float32) { Tanh(dst, dst) },
		"TanhGrad":          func(a, b, dst []float32) { TanhGrad(a, b, dst) },
		"SiLU":              func(a, _, dst []float32) { SiLU(a, dst) },
		"SiLUGrad":          func(a, b, dst []float32) { SiLUGrad(a, b, dst) },
		"GELU":              func(a, _, dst []float32) { GELU(a, dst, false) },
		"GELUGrad":          func(a, b, dst []float32) { GELUGrad(a, b, dst, false) },
		"GELUGrad in place": func(a, _, dst []float32) { GELUGrad(a, dst, dst, false) },
		"GELU, tanh":        func(a, _, dst []float32) { GELU(a, dst, true) },
		"GELUGrad, tanh":    func(a, b, dst []float32) { GELUGrad(a, b, dst, true) },
		"GELUAndSlope":      func(a, _, dst []float32) { GELUAndSlope(a, dst, false) },
		"GELUAndSlope tanh": func(a, _, dst []float32) { GELUAndSlope(a, dst, true) },
		"SiLUAndSlope":      func(a, _, dst []float32) { SiLUAndSlope(a, dst) },
		"Softplus":          func(a, _, dst []float32) { Softplus(a, dst, 0.7, 15) },
		"SoftplusGrad":      func(a, b, dst []float32) { SoftplusGrad(a, b, dst, 0.7, 15) },
	})
}

// A function that leaves its slope gives the bits of the function and of its gradient.
func TestSlopesAreThoseOfGradients(t *testing.T) {
	type unary func(x, y []float32)
	type binary func(x, dy, dx []float32)
	for _, c := range []struct {
		name    string
		f, both unary
		grad    binary
	}{
		{"SiLU", SiLU[float32], SiLUAndSlope, SiLUGrad[float32]},
		{"GELU", func(x, y []float32) { GELU(x, y, false) }, func(x, y []float32) { GELUAndSlope(x, y, false) }, func(x, dy, dx []float32) { GELUGrad(x, dy, dx, false) }},
		{"GELU, tanh", func(x, y []float32) { GELU(x, y, true) }, func(x, y []float32) { GELUAndSlope(x, y, true) }, func(x, dy, dx []float32) { GELUGrad(x, dy, dx, true) }},
	} {
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			for n := range 70 {
				x, dy := kerneltest.Awkward(uint64(n), n), kerneltest.Random[float32](2, n)
				want, wantDx, y, dx := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				c.f(x, want)
				c.grad(x, dy, wantDx)
				c.both(x, y)
				Mul(x, dy, dx)
				kerneltest.SameBits(t, c.name, y, want)
				kerneltest.SameBits(t, c.name+"'s gradient", dx, wantDx)
			}
		})
	}
}

func TestBiasGrad(t *testing.T) {
	dy, bias := []float32{11, 22, 33, 14, 25, 36}, []float32{10, 20, 30}
	BiasGrad(2, 3, dy, bias, true)
	kerneltest.CloseTo(t, "accumulated", bias, []float32{35, 67, 99}, 0)
	BiasGrad(2, 3, dy, bias, false)
	kerneltest.CloseTo(t, "overwritten", bias, []float32{25, 47, 69}, 0)
}

// Sums of many rows are as exact as sums of sums: one after the other they would be off by 4e-5.
func TestBiasGradOfManyRows(t *testing.T) {
	const rows, cols = 4096, 1100
	dy, bias, want := make([]float32, rows*cols), make([]float32, cols), make([]float64, cols)
	Fill(dy, 0.1)
	for i := range want {
		want[i] = rows * float64(float32(0.1))
	}
	BiasGrad(rows, cols, dy, bias, false)
	kerneltest.Nearly(t, "bias", bias, want, 2e-6)
}

// The columns of a bias that threads share have the bits of the whole.
func TestBiasGradOfColumns(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, rows := range []int{1, 40, 200} {
			for _, cols := range []int{5, 256, 257, 1100} {
				dy, whole, parts := kerneltest.Random[float32](uint64(cols), rows*cols), kerneltest.Random[float32](1, cols), kerneltest.Random[float32](1, cols)
				for _, accumulate := range []bool{true, false} {
					BiasGrad(rows, cols, dy, whole, accumulate)
					for lo, unit := 0, 3*BiasGradParts(cols); lo < cols; lo += unit {
						BiasGradOf(rows, cols, lo, min(lo+unit, cols), dy, parts, accumulate)
					}
					kerneltest.CloseTo(t, fmt.Sprintf("bias of %d rows of %d", rows, cols), parts, whole, 0)
				}
			}
		}
	})
}

// The bytes count what is read and what is written.
func BenchmarkElementwise(b *testing.B) {
	const n = 1 << 15
	x, y, z := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), kerneltest.Random[float32](3, n)
	b.Run("Add", func(b *testing.B) { kerneltest.BenchBandwidth(b, 12*n, func() { Add(x, y, z) }) })
	b.Run("Axpy", func(b *testing.B) { kerneltest.BenchBandwidth(b, 12*n, func() { Axpy(z, 1e-9, y) }) })
	b.Run("ReLU", func(b *testing.B) { kerneltest.BenchBandwidth(b, 8*n, func() { ReLU(x, z) }) })
	b.Run("ReLUGrad", func(b *testing.B) { kerneltest.BenchBandwidth(b, 12*n, func() { ReLUGrad(x, y, z) }) })
}

// Rows of any length and number, whichever way they are added up.
func TestRows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, rows := range []int{1, 3, 70, 1000} {
			for _, cols := range []int{1, 3, 7, 8, 16, 17, 24, 49, 64, 100, 196, 300} {
				x := kerneltest.Random[float32](uint64(cols), rows*cols)
				across, down := make([]float64, rows), make([]float64, cols)
				for i, v := range x {
					across[i/cols] += float64(v)
					down[i%cols] += float64(v)
				}
				sums, bias := kerneltest.Exactly[float32](rows), make([]float32, cols)
				RowSums(rows, cols, x, sums.Room)
				kerneltest.Nearly(t, fmt.Sprintf("sums of %d rows of %d", rows, cols), sums.Room, across, 1e-5)
				sums.Check(t, "sums")
				BiasGrad(rows, cols, x, bias, false)
				BiasGrad(rows, cols, x, bias, true)
				for i := range down {
					down[i] *= 2
				}
				kerneltest.Nearly(t, fmt.Sprintf("bias of %d rows of %d", rows, cols), bias, down, 1e-5)
			}
		}
	})
}

// Rows are filled to their ends, and nothing behind the last.
func TestFillRows(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, rows := range []int{1, 2, 3, 17} {
			for cols := 1; cols < 70; cols++ {
				values, y := kerneltest.Random[float32](uint64(cols), rows), kerneltest.Exactly[float32](rows*cols)
				FillRows(rows, cols, values, y.Room)
				y.Check(t, fmt.Sprintf("%d rows of %d", rows, cols))
				for i, v := range y.Room {
					if v != values[i/cols] {
						t.Fatalf("%d rows of %d: element %d is %v, want %v", rows, cols, i, v, values[i/cols])
					}
				}
			}
		}
	})
}

// A matrix times a vector is the dot product of each of its rows, of any length and distance.
func TestVectorDots(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for cols := range 70 {
			rows, stride := 3, cols+cols%4
			x, y, got := kerneltest.Random[float32](1, rows*stride), kerneltest.Random[float32](2, cols), kerneltest.Poisoned[float32](rows)
			want := make([]float64, rows)
			for r := range rows {
				for j := range cols {
					want[r] += float64(x[r*stride+j]) * float64(y[j])
				}
			}
			if cols > 0 {
				VectorDots(rows, cols, x, stride, y, got)
				kerneltest.CloseTo(t, fmt.Sprint(cols, " columns"), kerneltest.Widened(got), want, 1e-5)
			}
		}
	})
}
