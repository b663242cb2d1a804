package layernorm

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Rows of any length, with a mean that is large against the deviation, give what float64
// gives, and nothing behind them is written.
func TestLayerNorm(t *testing.T) {
	for i, cols := range []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 65, 200, 1000, 1030} {
		for _, offset := range []float32{0, 30} {
			rows := 4 + i%4 + 64*(i%3)
			x, dy := kerneltest.Random[float32](1, rows*cols), kerneltest.Random[float32](2, rows*cols)
			gamma, beta := kerneltest.Random[float32](3, cols), kerneltest.Random[float32](4, cols)
			for i := range x {
				x[i] += offset
			}
			want := layerNormOf(rows, cols, kerneltest.Widened(x), kerneltest.Widened(dy), kerneltest.Widened(gamma), kerneltest.Widened(beta), make([]float64, rows*cols), make([]float64, rows*cols))
			kerneltest.AtEachLevel(t, func(t *testing.T) {
				y, dx := kerneltest.Exactly[float32](rows*cols), kerneltest.Exactly[float32](rows*cols)
				got := layerNormOf(rows, cols, x, dy, gamma, beta, y.Room, dx.Room)
				for i, name := range []string{"y", "mean", "invstd", "dx", "dgamma", "dbeta"} {
					if name == "dx" && cols < 3 {
						continue // of two elements it is 0 but for epsilon and rounding
					}
					kerneltest.Nearly(t, fmt.Sprintf("%s of %d columns around %v", name, cols, offset), got[i], want[i], 1e-4)
				}
				y.Check(t, "y")
				dx.Check(t, "dx")
				one, stat := make([]float32, cols), make([]float32, 2)
				for r := range rows { // as threads may divide them
					LayerNorm(1, cols, x[r*cols:], gamma, beta, 1e-5, one, stat[:1], stat[1:])
					kerneltest.SameBits(t, fmt.Sprintf("row %d of %d columns alone", r, cols), append(stat, one...), append([]float32{got[1][r], got[2][r]}, y.Room[r*cols:][:cols]...))
				}
				if cols < 3 {
					return
				}
				copy(dx.Room, dy)
				layerNormGrad(rows, cols, x, dx.Room, got, gamma, dx.Room)
				kerneltest.Nearly(t, "dx over dy", dx.Room, want[3], 1e-4)
			})
		}
	}
}

// Moments are measured from a row's first elements: where these are far from all others, rounding grows as the kernel says,
// with the elements of a row.
func TestLayerNormOfOutliers(t *testing.T) {
	for _, outliers := range []int{1, 4, 16} {
		const rows, cols = 3, 1000
		x, gamma, beta := kerneltest.Random[float32](1, rows*cols), kerneltest.Random[float32](3, cols), kerneltest.Random[float32](4, cols)
		for r := range rows {
			for j := range outliers {
				x[r*cols+j] = 1e4
			}
		}
		wide := make([]float64, rows*cols)
		want := layerNormOf(rows, cols, kerneltest.Widened(x), wide, kerneltest.Widened(gamma), kerneltest.Widened(beta), make([]float64, rows*cols), wide)
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			got := [][]float32{make([]float32, rows*cols), make([]float32, rows), make([]float32, rows)}
			LayerNorm(rows, cols, x, gamma, beta, 1e-5, got[0], got[1], got[2])
			kerneltest.CloseTo(t, fmt.Sprintf("y with %d outliers", outliers), kerneltest.Widened(got[0]), want[0], 5e-5)
		})
	}
}

// layerNormOf runs forward and, twice into the same gradients, backward.
func layerNormOf[T float32 | float64](rows, cols int, x, dy, gamma, beta, y, dx []T) [][]T {
	out := [][]T{y, make([]T, rows), make([]T, rows), dx, make([]T, cols), make([]T, cols)}
	LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, out[1], out[2])
	LayerNormGrad(rows, cols, x, dy, out[1], out[2], gamma, dx, out[4], out[5], false)
	LayerNormGrad(rows, cols, x, dy, out[1], out[2], gamma, dx, out[4], out[5], true)
	return out
}

func layerNormGrad(rows, cols int, x, dy []float32, kept [][]float32, gamma, dx []float32) {
	LayerNormGrad(rows, cols, x, dy, kept[1], kept[2], gamma, dx, kept[4], kept[5], false)
}

// The bytes count what is read and what is written.
func BenchmarkLayerNorm(b *testing.B) {
	const n = 1 << 19
	x, dy, y := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), make([]float32, n)
	for _, cols := range []int{8, 24, 64, 8192} {
		rows := n / cols
		gamma, beta, mean, invstd, dg, db := make([]float32, cols), make([]float32, cols), make([]float32, rows), make([]float32, rows), make([]float32, cols), make([]float32, cols)
		b.Run(fmt.Sprint(cols), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 8*n, func() { LayerNorm(rows, cols, x, gamma, beta, 1e-5, y, mean, invstd) })
		})
		b.Run(fmt.Sprint(cols, "Grad"), func(b *testing.B) {
			kerneltest.BenchBandwidth(b, 12*n, func() { LayerNormGrad(rows, cols, x, dy, mean, invstd, gamma, y, dg, db, false) })
		})
	}
}

// RMS norms of rows of any length agree with plain Go in float64.
func TestRMSNormAgreesWithFloat64(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for cols := 1; cols < 150; cols++ {
			rows := 3 + cols%70
			x, dy, gamma := kerneltest.Random[float32](1, rows*cols), kerneltest.Random[float32](2, rows*cols), kerneltest.Random[float32](3, cols)
			y, inv, dgamma := make([]float32, rows*cols), make([]float32, rows), kerneltest.Random[float32](4, cols)
			wantY, wantInv, wantDx, wantDgamma := make([]float64, rows*cols), make([]float64, rows), make([]float64, rows*cols), kerneltest.Widened(dgamma)
			wideX, wideGamma := kerneltest.Widened(x), kerneltest.Widened(gamma)
			RMSNorm(rows, cols, wideX, wideGamma, 1e-5, wantY, wantInv)
			RMSNormGrad(rows, cols, wideX, kerneltest.Widened(dy), wantInv, wideGamma, wantDx, wantDgamma, true)
			RMSNorm(rows, cols, x, gamma, 1e-5, y, inv)
			RMSNormGrad(rows, cols, x, dy, inv, gamma, dy, dgamma, true) // in place
			for what, pair := range map[string][2][]float64{
				"y": {kerneltest.Widened(y), wantY}, "invrms": {kerneltest.Widened(inv), wantInv},
				"dx": {kerneltest.Widened(dy), wantDx}, "dgamma": {kerneltest.Widened(dgamma), wantDgamma},
			} {
				kerneltest.CloseTo(t, fmt.Sprintf("%s of %d columns", what, cols), pair[0], pair[1], 5e-5)
			}
		}
	})
}
