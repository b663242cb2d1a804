package image

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// noisy are bytes among which the extremes are frequent.
func noisy(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, n)
	for i := range b {
		switch b[i] = byte(r.Uint32()); r.IntN(4) {
		case 0:
			b[i] = 0
		case 1:
			b[i] = 255
		}
	}
	return b
}

// The vectors give what libjpeg's formula gives: every factor rounded to 16 bits
// by itself, products rounded to the nearest.
func TestColoursBits(t *testing.T) {
	fixed := func(x float64) int { return int(math.Floor(x*65536 + 0.5)) }
	clip := func(v int) byte { return byte(min(max(v, 0), 255)) }
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 100 {
			seed := uint64(2 * n)
			y, cb, cr := noisy(seed, n), noisy(seed+1000, n), noisy(seed+2000, n)
			dst := bytes.Repeat([]byte{7}, PixelBytes*n+1)
			Colours(dst, y, cb, cr)
			for i := range n {
				y, u, v := int(y[i]), int(cb[i])-128, int(cr[i])-128
				r := clip(y + (fixed(1.402)*v+1<<15)>>16)
				g := clip(y + (-fixed(0.34414)*u-fixed(0.71414)*v+1<<15)>>16)
				b := clip(y + (fixed(1.772)*u+1<<15)>>16)
				if got := dst[PixelBytes*i:]; got[0] != r || got[1] != g || got[2] != b {
					t.Fatalf("length %d: pixel %d is %v, want %d %d %d", n, i, got[:3], r, g, b)
				}
			}
			if dst[len(dst)-1] != 7 {
				t.Fatalf("length %d: written behind the end", n)
			}
		}
	})
}

// weights that add up to about one, of both signs.
func weights(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 5))
	w := make([]int32, n)
	for i := range w {
		w[i] = int32(r.IntN(1<<WeightBits)) - 1<<(WeightBits-3)
	}
	return w
}

func TestAcrossPixelsBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 20 {
			for _, taps := range []int{4, 8, 12} {
				src := noisy(uint64(n+taps), PixelBytes*(2*n+taps))
				weight, first := weights(uint64(n), n*taps), make([]int32, n)
				for i := range first {
					first[i] = int32(2 * i)
				}
				want := bytes.Repeat([]byte{7}, PixelBytes*n+1)
				got := slices.Clone(want)
				AcrossPixels(got, src, first, weight, taps)
				kerneltest.Reference(func() { AcrossPixels(want, src, first, weight, taps) })
				if !bytes.Equal(got, want) {
					t.Fatalf("%d pixels of %d taps: %v, want %v", n, taps, got, want)
				}
			}
		}
	})
}

func TestDownPixelsBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 140 {
			taps := 1 + n%7
			src, weight := noisy(uint64(n), (n+3)*taps), weights(uint64(n), taps)
			want := bytes.Repeat([]byte{7}, n+1)
			got := slices.Clone(want)
			DownPixels(got[:n], src, n+3, weight)
			kerneltest.Reference(func() { DownPixels(want[:n], src, n+3, weight) })
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of %d taps: %v, want %v", n, taps, got, want)
			}
		}
	})
}

// The definition, by hand: halves go up, and sums are clipped.
func TestWeightedSumsAreRounded(t *testing.T) {
	const one = 1 << WeightBits
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		src := slices.Concat(bytes.Repeat([]byte{3}, 32), bytes.Repeat([]byte{200}, 32))
		for _, c := range []struct {
			a, b int32
			want byte
		}{{one, 0, 3}, {one / 2, 0, 2}, {0, one, 200}, {one, one, 203}, {one, 2 * one, 255}, {-one, 0, 0}, {0, one/400 + 1, 1}, {0, one / 400, 0}} {
			dst := make([]byte, 32)
			DownPixels(dst, src, 32, []int32{c.a, c.b})
			across := make([]byte, PixelBytes)
			AcrossPixels(across, []byte{3, 3, 3, 3, 200, 200, 200, 200, 0, 0, 0, 0, 0, 0, 0, 0}, []int32{0}, []int32{c.a, c.b, 0, 0}, 4)
			if dst[31] != c.want || across[2] != c.want {
				t.Errorf("3·%d + 200·%d are %d and %d, want %d", c.a, c.b, dst[31], across[2], c.want)
			}
		}
	})
}

func TestChannelBits(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		l := NewLevels(0.485, 0.229)
		for n := range 100 {
			for c := range 3 {
				pixels := noisy(uint64(n), PixelBytes*n)
				one := make([]byte, n)
				for i := range one {
					one[i] = pixels[PixelBytes*i+c]
				}
				got, want := make([]float32, n), make([]float32, n)
				l.Channel(got, pixels, c)
				l.Convert(want, one)
				kerneltest.SameBits(t, fmt.Sprintf("channel %d, length %d", c, n), got, want)
			}
		}
	})
}

func TestMirrorPixels(t *testing.T) {
	for n := range 6 {
		row, want := make([]byte, PixelBytes*n), make([]byte, PixelBytes*n)
		for i := range row {
			row[i] = byte(i)
			want[PixelBytes*(n-1-i/PixelBytes)+i%PixelBytes] = byte(i)
		}
		if MirrorPixels(row); !bytes.Equal(row, want) {
			t.Errorf("%v, want %v", row, want)
		}
	}
}
