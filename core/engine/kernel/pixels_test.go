package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every byte becomes the bits of the definition, for every length, for the
// normalisations in use and for others, and nothing is written behind the end.
func TestLevelsBits(t *testing.T) {
	norms := [][2]float32{{0, 1}, {0.1307, 0.3081}, {0.485, 0.229}, {0.456, 0.224}, {0.406, 0.225}, {0.5, 0.5}, {0.4914, 0.2023}, {1, 1e-3}, {-3, 7}, {0, 1e-44}, {1e30, 1e-30}}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		norms = append(norms, [2]float32{r.Float32(), r.Float32() + 1e-3})
	}
	atEachLevel(t, func(t *testing.T) {
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
				sameBits(t, fmt.Sprintf("mean %v, std %v, length %d", n[0], n[1], length), got, want)
			}
		}
		if active != Generic && slow > 3 { // a denormal std has no reciprocal
			t.Errorf("%d of %d normalisations go the slow way", slow, len(norms))
		}
	})
}

func TestNoiseBits(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 200 {
			key := uint64(n) * 0xdeadbeefcafe
			want := make([]float32, n)
			for i := range want {
				bits := uint32(Mix(key+uint64(i/2+1)*golden) >> (32 * (i % 2)))
				want[i] = float32(int32(bits)>>8) * 0.3
			}
			got := make([]float32, n)
			Noise(got, key, 0.3)
			sameBits(t, fmt.Sprintf("length %d", n), got, want)
		}
	})
}

// The generator's published sequence from seed 1234567.
func TestMixIsSplitMix64(t *testing.T) {
	key := uint64(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		key += golden
		if got := Mix(key); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

func BenchmarkLevels(b *testing.B) {
	l, src, dst := NewLevels(0.1307, 0.3081), make([]byte, 784), make([]float32, 784)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		l.Convert(dst, src)
	}
}

func BenchmarkNoise(b *testing.B) {
	dst := make([]float32, 784)
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		Noise(dst, 1, 0.3)
	}
}
