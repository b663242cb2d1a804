package random

import (
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The known answers that the authors publish with Random123.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = math.MaxUint32
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

func TestDropoutMask(t *testing.T) {
	const n = 40003
	mask, again := make([]uint8, n), make([]uint8, n)
	DropoutMask(1, 2, 0.3, mask)
	kept := 0
	for _, m := range mask {
		kept += int(m)
	}
	if got := float64(kept) / n; math.Abs(got-0.7) > 0.01 {
		t.Errorf("%v kept with p = 0.3", got)
	}
	DropoutMask(1, 2, 0.3, again[:n/2])
	if !slices.Equal(mask[:n/2], again[:n/2]) {
		t.Error("a shorter mask is another one")
	}
	for _, other := range [][2]uint64{{2, 2}, {1, 3}} {
		DropoutMask(other[0], other[1], 0.3, again)
		if slices.Equal(mask, again) {
			t.Errorf("seed, stream %v give the same mask as 1, 2", other)
		}
	}
	for p, want := range map[float64]uint8{0: 1, 1: 0} {
		if DropoutMask(1, 2, p, mask); slices.Contains(mask, 1-want) {
			t.Errorf("p = %v: a value is not %d", p, want)
		}
	}
}

// Vector kernels make the masks of plain Go, of every length, and where numbers of blocks need more than 32 bits.
func TestDropoutMaskAtEachLevel(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 300 {
			for _, p := range []float64{0, 0.1, 0.5, 1} {
				for _, first := range []uint64{0, 4 * uint64(n), 1<<34 - 64} {
					seed, stream := 0x9876543210abcdef*uint64(n), 0xfedcba9876543210+uint64(n)
					got, want := make([]uint8, n), make([]uint8, n)
					DropoutMaskFrom(seed, stream, p, first, got)
					kerneltest.Reference(func() { DropoutMaskFrom(seed, stream, p, first, want) })
					if !slices.Equal(got, want) {
						t.Fatalf("%d values from %d on with p = %v: %v, want %v", n, first, p, got, want)
					}
				}
			}
		}
	})
}

func TestDropout(t *testing.T) {
	x := []float32{1, float32(math.NaN()), 3}
	elementwise.Dropout([]uint8{1, 0, 1}, 2, x, x)
	kerneltest.SameBits(t, "dropout", x, []float32{2, 0, 6})
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){"dropout": func(a, _, dst []float32) {
		mask := make([]uint8, len(a))
		DropoutMask(1, 2, 0.5, mask)
		elementwise.Dropout(mask, 2, a, dst)
	}})
}

func BenchmarkDropoutMask(b *testing.B) {
	mask := make([]uint8, 1<<15)
	b.SetBytes(int64(len(mask)))
	for b.Loop() {
		DropoutMask(1, 2, 0.1, mask)
	}
}
