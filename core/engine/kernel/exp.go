package kernel

import "math"

// Exponentials of float32 are taken in float64, eight at a time where there are
// vectors, by the same operations at every level, and so to the same bits: float32
// results are within half a unit in the last place, and 2⁻¹² of one.

// The constants of expOf: k·ln 2 is taken off in two steps, and what is left, at
// most ln 2 / 2, goes through a polynomial. Known to gen/exp.go.
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

// expOf is the exponential of a number that counts for a float32: it ends at
// e^±708. A NaN that comes from a float32 stays one.
func expOf(x float64) float64 {
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

func sigmoidOf(x float64) float64 { return 1 / (1 + expOf(0-x)) }

func tanhOf(x float64) float64 {
	if math.Abs(x) < 1./1024 {
		return math.FMA(x*x*x, -1./3, x)
	}
	q := expOf(-2 * math.Abs(x))
	return math.Copysign((1-q)/(1+q), x)
}

// octets is how the vector kernels go over n elements: groups of eight, and the
// lanes of the last of them.
func octets(n int) (groups int, full, tail laneCount) {
	return ceilDiv(n, 8), lanesOf(8), lanesOf((n-1)%8 + 1)
}

// vectors32 reports whether n elements of T are for the vector kernels of any length.
func vectors32[T Float](n int) bool { return is32[T]() && n > 0 && level() != Generic }

// largest is the largest of x that is not NaN, or −∞.
func largest[T Float](x []T) T {
	if vectors32[T](len(x)) {
		return T(vecLargest(as32(x)))
	}
	top := T(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// expSum is Σexp(x−peak), and stores each exponential in y if that is not nil.
// Float32 ones add up as vectors do: eight sums of every eighth.
func expSum[T Float](x []T, peak T, y []T) float64 {
	if vectors32[T](len(x)) {
		return vecExpSum(as32(x), float64(peak), as32(y))
	}
	var sums [8]float64
	for j, v := range x {
		e, at := 0.0, 0
		if d := float64(v) - float64(peak); is32[T]() {
			e, at = expOf(d), j%8
		} else {
			e = math.Exp(d)
		}
		sums[at] += e
		if y != nil {
			y[j] = T(e)
		}
	}
	return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

// softmaxGrad replaces exponentials by (y/sum − wanted)·scale.
func softmaxGrad[T Float](y []T, sum, wanted, scale float64) {
	if vectors32[T](len(y)) {
		vecSoftmaxGrad(as32(y), sum, wanted, scale)
		return
	}
	for j, e := range y {
		y[j] = T((float64(e)/sum - wanted) * scale)
	}
}
