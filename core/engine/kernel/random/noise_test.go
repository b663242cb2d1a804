package random

import (
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestNoiseBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 200 {
			key := uint64(n) * 0xdeadbeefcafe
			want := make([]float32, n)
			for i := range want {
				bits := uint32(Mix(key+uint64(i/2+1)*golden) >> (32 * (i % 2)))
				want[i] = float32(int32(bits)>>8) * 0.3
			}
			got := make([]float32, n)
			Noise(got, key, 0.3)
			kerneltest.SameBits(t, fmt.Sprintf("length %d", n), got, want)
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

func BenchmarkNoise(b *testing.B) {
	dst := make([]float32, 784)
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		Noise(dst, 1, 0.3)
	}
}
