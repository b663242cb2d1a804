package bind

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/tensor"
)

// Rounding in place must not overtake what it has yet to read.
func TestNarrowInPlace(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 1000} {
		v := make([]float32, n)
		rng.NewMT(uint64(n)).UniformF32(v, -2, 2)
		want := make([]uint16, n)
		for i, x := range v {
			want[i] = tensor.BF16FromF32(x)
		}
		raw := tensor.Bytes(v)
		narrowInPlace(tensor.BF16, raw)
		for i, got := range tensor.View[uint16](raw[:2*n]) {
			if got != want[i] {
				t.Fatalf("n = %d: element %d is %#04x, want %#04x", n, i, got, want[i])
			}
		}
	}
}
