package pool

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestMaxPoolHalving(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for h := 2; h <= 5; h++ {
			for w := 2; w <= 70; w++ {
				p := Shape{N: 1, C: 2, H: h, W: w, R: 2, S: 2, StrideH: 2, StrideW: 2}
				x := kerneltest.Awkward(uint64(w), 2*h*w)
				out := 2 * p.OutH() * p.OutW()
				y, want := make([]float32, out), make([]float32, out)
				idx, wantIdx := make([]int32, out), make([]int32, out)
				MaxPool2D(&p, x, y, idx)
				kerneltest.Reference(func() { MaxPool2D(&p, x, want, wantIdx) })
				kerneltest.SameBits(t, fmt.Sprintf("%d×%d", h, w), y, want)
				if !slices.Equal(idx, wantIdx) {
					t.Fatalf("%d×%d: places %v, want %v", h, w, idx, wantIdx)
				}
			}
		}
	})
}

func TestMaxPoolTiesAndNaN(t *testing.T) {
	nan := float32(math.NaN())
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		p := Shape{N: 1, C: 1, H: 2, W: 6, R: 2, S: 2, StrideH: 2, StrideW: 2}
		x := []float32{7, 7, 1, nan, nan, 2,
			7, 7, 2, 3, 1, 2}
		y, idx := make([]float32, 3), make([]int32, 3)
		MaxPool2D(&p, x, y, idx)
		kerneltest.SameBits(t, "maxima", y, []float32{7, nan, nan})
		if !slices.Equal(idx, []int32{0, 3, 4}) {
			t.Fatalf("places %v", idx)
		}
	})
}
