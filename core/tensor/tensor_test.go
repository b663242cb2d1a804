package tensor

import (
	"math"
	"testing"
)

// Every half-precision pattern widens exactly, so rounding it back must give it again.
func TestHalfRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		if f := F32FromF16(h); f == f {
			if got := F16FromF32(f); got != h {
				t.Fatalf("f16 %#04x: widened to %v, rounded back to %#04x", h, f, got)
			}
		} else if got := F16FromF32(f); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
			t.Fatalf("f16 NaN %#04x came back as %#04x", h, got)
		}
		if f := F32FromBF16(h); f == f {
			if got := BF16FromF32(f); got != h {
				t.Fatalf("bf16 %#04x: widened to %v, rounded back to %#04x", h, f, got)
			}
		}
	}
}

// The midpoint between two neighbours goes to the even one, anything beyond it to the nearer.
func TestHalfTiesToEven(t *testing.T) {
	for h := uint16(0); h < 0x7bff; h++ {
		lo, hi := float64(F32FromF16(h)), float64(F32FromF16(h+1))
		mid := float32((lo + hi) / 2)
		even := h + h&1
		if got := F16FromF32(mid); got != even {
			t.Fatalf("f16 midpoint above %#04x rounds to %#04x, want %#04x", h, got, even)
		}
		if got := F16FromF32(math.Nextafter32(mid, 1e9)); got != h+1 {
			t.Fatalf("f16 just above the midpoint over %#04x rounds to %#04x", h, got)
		}
		if got := F16FromF32(math.Nextafter32(mid, 0)); got != h {
			t.Fatalf("f16 just below the midpoint over %#04x rounds to %#04x", h, got)
		}
	}
	for h := uint16(0); h < 0x7f7f; h++ {
		b := uint32(h)<<16 | 0x8000
		if got, even := BF16FromF32(math.Float32frombits(b)), h+h&1; got != even {
			t.Fatalf("bf16 midpoint above %#04x rounds to %#04x, want %#04x", h, got, even)
		}
	}
	if F16FromF32(65519.996) != 0x7bff || F16FromF32(65520) != 0x7c00 {
		t.Fatal("f16 overflow is not at 65520")
	}
}

func TestViewsShareMemory(t *testing.T) {
	x := New(F32, 2, 3)
	x.F32()[5] = 7
	if View[float32](x.Data[20:])[0] != 7 {
		t.Fatal("a view does not share its tensor's memory")
	}
	if x.Spec().String() != "f32[2, 3]" || x.Spec().Bytes() != 24 {
		t.Fatalf("spec %v, %d bytes", x.Spec(), x.Spec().Bytes())
	}
}

// What Set stores, At reads, and floats are rounded to their type.
func TestElements(t *testing.T) {
	for d := F32; d < Bool; d++ {
		x := New(d, 3)
		x.Set(1, 5)
		if x.At(0) != 0 || x.At(1) != 5 || x.At(2) != 0 {
			t.Errorf("%v: elements are %v, %v, %v; want 0, 5, 0", d, x.At(0), x.At(1), x.At(2))
		}
		if d.Float() {
			next := 1 + d.Epsilon()
			if x.Set(0, next); x.At(0) != next {
				t.Errorf("%v: the number after 1 is stored as %v, want %v", d, x.At(0), next)
			}
			if x.Set(0, 1+d.Epsilon()/4); x.At(0) != 1 {
				t.Errorf("%v: %v is not rounded to 1", d, x.At(0))
			}
		}
	}
}
