package vision

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// Samples, epochs and seeds that are neighbours have nothing in common.
func TestSourcesDiffer(t *testing.T) {
	seen := map[uint64][3]int{}
	for seed := range 4 {
		for epoch := range 8 {
			for index := range 64 {
				s := NewSource(uint64(seed), epoch, int64(index))
				v := s.Uint64()
				if other, twice := seen[v]; twice {
					t.Fatalf("%v and %v draw the same", other, [3]int{seed, epoch, index})
				}
				seen[v] = [3]int{seed, epoch, index}
			}
		}
	}
}

func TestSourceIsUniform(t *testing.T) {
	const n = 20000
	var heads, sum float64
	var count [9]float64
	for i := range n {
		s := NewSource(1, 0, int64(i))
		count[s.Below(9)]++
		sum += s.Uniform(2, 4)
		if s.Coin() {
			heads++
		}
	}
	if math.Abs(heads/n-0.5) > 0.02 || math.Abs(sum/n-3) > 0.02 {
		t.Errorf("%g heads, mean %g", heads/n, sum/n)
	}
	for v, c := range count {
		if math.Abs(c/n-1.0/9) > 0.01 {
			t.Errorf("%g of the draws are %d", c/n, v)
		}
	}
}

func TestLevels(t *testing.T) {
	var l usererr.List
	levels := ParseNormalization(&l, sdk.Options{"mean": []float64{0.5}, "std": []float64{1, 2, 4}}).Levels()
	out := make([]float32, 6)
	levels.Planes(out, []byte{255, 255, 255, 9, 0, 0, 0, 9})
	for i, want := range []float32{0.5, -0.5, 0.25, -0.25, 0.125, -0.125} {
		if out[i] != want {
			t.Errorf("element %d is %v, want %v", i, out[i], want)
		}
	}
	ParseNormalization(&l, sdk.Options{"mean": []float64{1, 2}, "std": []float64{0}})
	if len(l) != 2 || l[0].Key != "mean" || l[1].Key != "std" {
		t.Errorf("problems %v", l)
	}
}
