package attention

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func BenchmarkAttention(b *testing.B) {
	for _, s := range [][3]int{{64, 32, 48}, {256, 64, 24}} { // positions, elements, heads of all samples
		h := Head{Queries: s[0], Keys: s[0], Dim: s[1], Causal: true}
		var x [8][]float32
		for i := range x {
			x[i] = kerneltest.Random[float32](uint64(i+1), s[0]*s[1])
		}
		r := func(i int) Rows[float32] { return Rows[float32]{x[i], s[1]} }
		lse := make([]float32, s[0])
		scratch := make([]float32, max(ForwardScratch(h), BackwardScratch(h)))
		b.Run(fmt.Sprint("forward", s), func(b *testing.B) {
			for b.Loop() {
				for range s[2] {
					Forward(h, nil, r(0), r(1), r(2), r(3), lse, scratch)
				}
			}
		})
		b.Run(fmt.Sprint("backward", s), func(b *testing.B) {
			for b.Loop() {
				for range s[2] {
					Backward(h, nil, r(0), r(1), r(2), r(3), r(4), lse, r(5), r(6), r(7), scratch)
				}
			}
		})
	}
}
