package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestMaxPoolHalving(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for h := 2; h <= 5; h++ {
			for w := 2; w <= 70; w++ {
				p := Pool{N: 1, C: 2, H: h, W: w, R: 2, S: 2, StrideH: 2, StrideW: 2}
				x := awkward(uint64(w), 2*h*w)
				out := 2 * p.OutH() * p.OutW()
				y, want := make([]float32, out), make([]float32, out)
				idx, wantIdx := make([]int32, out), make([]int32, out)
				MaxPool2D(&p, x, y, idx)
				reference(func() { MaxPool2D(&p, x, want, wantIdx) })
				sameBits(t, fmt.Sprintf("%d×%d", h, w), y, want)
				if !slices.Equal(idx, wantIdx) {
					t.Fatalf("%d×%d: places %v, want %v", h, w, idx, wantIdx)
				}
			}
		}
	})
}

func TestMaxPoolTiesAndNaN(t *testing.T) {
	nan := float32(math.NaN())
	atEachLevel(t, func(t *testing.T) {
		p := Pool{N: 1, C: 1, H: 2, W: 6, R: 2, S: 2, StrideH: 2, StrideW: 2}
		x := []float32{7, 7, 1, nan, nan, 2,
			7, 7, 2, 3, 1, 2}
		y, idx := make([]float32, 3), make([]int32, 3)
		MaxPool2D(&p, x, y, idx)
		sameBits(t, "maxima", y, []float32{7, nan, nan})
		if !slices.Equal(idx, []int32{0, 3, 4}) {
			t.Fatalf("places %v", idx)
		}
	})
}
