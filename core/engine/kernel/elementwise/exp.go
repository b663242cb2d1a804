package elementwise

import "math"

// The exponentials of a softmax are taken in float64, eight at a time where there are
// vectors, by the same operations at every level, and so to the same bits: float32
// results are within half a unit in the last place, and 2⁻¹² of one.

// The constants of Exp: k·ln 2 is taken off in two steps, and what is left, at
// most ln 2 / 2, goes through a polynomial. Known to gen/pointwise/exp.go.
const (
	expBound = 708                    // the exponential beyond is 0 or ∞ in float32
	roundTo  = 3 << 51                // added to a number, it leaves an integer in the lowest bits
	ln2Low   = 2.3190468138462996e-17 // ln 2 less its float64
)

// expTerms are 1/n! from n = 10 down to 0.
var expTerms = func() (t [11]float64) {
	f := 1.0
	for n := range t {
		if n > 1 {
			f *= float64(n)
		}
		t[10-n] = 1 / f
	}
	return t
}()

// Exp is the exponential of a number that counts for a float32: it ends at
// e^±708. A NaN that comes from a float32 stays one.
func Exp(x float64) float64 {
	if x > expBound {
		x = expBound
	}
	if x < -expBound {
		x = -expBound
	}
	k := math.FMA(x, math.Log2E, roundTo)
	n := k - roundTo
	r := math.FMA(-n, math.Ln2, x)
	r = math.FMA(-n, ln2Low, r)
	p := expTerms[0]
	for _, c := range expTerms[1:] {
		p = math.FMA(p, r, c)
	}
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(k)<<52)
}
