package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// idct is the definition (ITU-T T.81, A.3.3), of coefficients column by column.
func idct(coefs *[BlockSize]int32) (out [BlockSize]float64) {
	for y := range 8 {
		for x := range 8 {
			for u := range 8 {
				for v := range 8 {
					c := float64(coefs[8*u+v]) / 4
					if u == 0 {
						c /= math.Sqrt2
					}
					if v == 0 {
						c /= math.Sqrt2
					}
					out[8*y+x] += c * math.Cos(float64((2*x+1)*u)*math.Pi/16) * math.Cos(float64((2*y+1)*v)*math.Pi/16)
				}
			}
		}
	}
	return out
}

// Pixels are those of the definition, rounded, or next to them; they lie where
// they belong, and nothing beside them is written. That the bits are those of
// image/jpeg is a test of the decoder.
func TestInverseDCT(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		if !HasInverseDCT() {
			t.Skip("none in plain Go")
		}
		r := rand.New(rand.NewPCG(1, 9))
		for round := range 200 {
			var coefs [BlockSize]int32
			for range round % 20 {
				coefs[r.IntN(BlockSize)] = int32(r.IntN(400) - 200)
			}
			coefs[0] = int32(r.IntN(2400) - 1200)
			const stride = 11
			dst := make([]byte, 8*stride)
			for i := range dst {
				dst[i] = 7
			}
			InverseDCT(dst, stride, &coefs)
			for i, want := range idct(&coefs) {
				want = min(max(want+128, 0), 255)
				if got := float64(dst[i/8*stride+i%8]); math.Abs(got-want) > 1.02 {
					t.Fatalf("round %d: pixel (%d, %d) is %v, want %.2f", round, i%8, i/8, got, want)
				}
			}
			for i, v := range dst {
				if i%stride >= 8 && v != 7 {
					t.Fatalf("written at %d", i)
				}
			}
		}
	})
}
