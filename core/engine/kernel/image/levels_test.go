package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Every byte becomes the bits of the definition, for every length, for the
// normalisations in use and for others, and nothing is written behind the end.
func TestLevelsBits(t *testing.T) {
	norms := [][2]float32{{0, 1}, {0.1307, 0.3081}, {0.485, 0.229}, {0.456, 0.224}, {0.406, 0.225}, {0.5, 0.5}, {0.4914, 0.2023}, {1, 1e-3}, {-3, 7}, {0, 1e-44}, {1e30, 1e-30}}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		norms = append(norms, [2]float32{r.Float32(), r.Float32() + 1e-3})
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		slow := 0
		for _, n := range norms {
			l := NewLevels(n[0], n[1])
			if !l.vector {
				slow++
			}
			for length := range 300 {
				src := make([]byte, length)
				want := make([]float32, length+1)
				for i := range src {
					src[i] = byte(i + length)
					x := float32(float32(src[i])/255) - n[0]
					want[i] = float32(x) / n[1]
				}
				want[length] = 42
				got := slices.Clone(want)
				clear(got[:length])
				l.Convert(got, src)
				kerneltest.SameBits(t, fmt.Sprintf("mean %v, std %v, length %d", n[0], n[1], length), got, want)
			}
		}
		if kernel.Current() != kernel.Generic && slow > 3 { // a denormal std has no reciprocal
			t.Errorf("%d of %d normalisations go the slow way", slow, len(norms))
		}
	})
}

func BenchmarkLevels(b *testing.B) {
	l, src, dst := NewLevels(0.1307, 0.3081), make([]byte, 784), make([]float32, 784)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		l.Convert(dst, src)
	}
}
