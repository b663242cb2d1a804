package elementwise

import "math"

// Functions of one float32, by the operations of gen/pointwise/formula.go and gen/pointwise/functions.go, one
// for one: a product is rounded before it is added, which the conversions say, or not at all, by fma32, so vectors
// and plain Go give the same bits. Tests state how far each is from the function.

// The constants of exponentials. Known to gen/pointwise/formula.go.
const (
	magic      = 3<<22 + 127 // added to a number, it leaves an integer and the exponent of 1 in the lowest bits
	tinyBias   = 64          // keeps results that are too small for float32 until they are multiplied
	tiny       = 0x1p-64
	ln2High32  = 0.693359375 // n times this is exact
	ln2Low32   = -2.12194440e-4
	expBound32 = 110
)

// horner is a polynomial of x.
func horner(x float32, terms []float32) float32 {
	p := terms[0]
	for _, c := range terms[1:] {
		p = float32(p*x) + c
	}
	return p
}

// expParts32 gives exp(r) − 1 with r = h − n·ln 2, and 2^(n+bias).
func expParts32(h float32, bias float32) (rest, power float32) {
	k := float32(h*float32(math.Log2E)) + (magic + bias)
	n := k - (magic + bias)
	r := (h - float32(n*ln2High32)) - float32(n*ln2Low32)
	square := float32(r * r)
	rest = float32(square*expTerms32[0]) + horner(r, expTerms32[1:3])
	rest = float32(rest*square) + horner(r, expTerms32[3:])
	rest = float32(rest*square) + r
	return rest, math.Float32frombits(math.Float32bits(k) << 23)
}

// exp32 is exp(h)·2^tinyBias for h ≤ 0.
func exp32(h float32) float32 {
	rest, power := expParts32(h, tinyBias)
	return (rest + 1) * power
}

// size32 is |x|, at most bound; a NaN stays one.
func size32(x, bound float32) float32 {
	if x = abs32(x); x > bound {
		return bound
	}
	return x
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// bySign is yes where x has its sign bit set, and no elsewhere. There is no branch, which random signs would have predicted wrongly.
func bySign(x, yes, no float32) float32 {
	mask, n := uint32(int32(math.Float32bits(x))>>31), math.Float32bits(no)
	return math.Float32frombits(n ^ (n^math.Float32bits(yes))&mask)
}

// decay32 is exp(−|x|).
func decay32(x float32) float32 { return exp32(-size32(x, expBound32)) * tiny }

func sigmoid32(x float32) float32 {
	e := decay32(x)
	return bySign(x, e, 1) / (e + 1)
}

// logistic32 is σ(−|x|), as e/(1+e) with e = exp(−|x|). Products are added without rounding.
func logistic32(x float32) float32 {
	h := -size32(x, expBound32)
	k := fma32(math.Log2E, h, magic+tinyBias)
	n := k - (magic + tinyBias)
	r := fma32(-ln2Low32, n, fma32(-ln2High32, n, h))
	return share(fusedExp32(r, k) * tiny)
}

func share(e float32) float32 { return e / (e + 1) }

// sigmoids32 gives σ(x) and σ(−x), given σ(−|x|).
func sigmoids32(x, less float32) (at, opposite float32) {
	more := 1 - less
	return bySign(x, less, more), bySign(x, more, less)
}

// gated32 is x·σ(u), given the sign of u and σ(−|u|).
func gated32(x, u, less float32) float32 { return x * bySign(u, less, 1-less) }

// tanh32 is −p/(2+p) with p = exp(−2|x|) − 1, with the sign of x.
func tanh32(x float32) float32 {
	const bound = 10
	rest, power := expParts32(size32(x, bound)*-2, 0)
	p := float32(power*rest) + (power - 1)
	return math.Float32frombits(math.Float32bits(p/(p+2))&^(1<<31) | math.Float32bits(x)&(1<<31))
}

func silu32(x float32) float32 { return gated32(x, x, logistic32(x)) }

func siluGrad32(x, dy float32) float32 { return siluSlope32(x, logistic32(x)) * dy }

// siluSlope32 is SiLU'(x), given σ(−|x|).
func siluSlope32(x, less float32) float32 {
	at, opposite := sigmoids32(x, less)
	return at * fma32(x, opposite, 1)
}

// normalTail32 gives exp(−x²/2)·2^tinyBias and Φ(−|x|). Products are added without rounding: that of |x| with
// itself leaves what its rounding lost.
func normalTail32(x float32) (e, tail float32) {
	size := size32(x, tailBound)
	square := float32(size * size)
	e = halfExp32(square, fma32(-size, size, square))
	return e, float32(e*(fusedHorner(size, tailOver[:], tiny))) / fusedHorner(size, tailUnder[:], 1)
}

// Φ(−tailBound) is too small for float32.
const tailBound = 14.5

// halfExp32 is exp(−(square − lost)/2)·2^tinyBias.
func halfExp32(square, lost float32) float32 {
	k := fma32(-math.Log2E/2, square, magic+tinyBias)
	n := k - (magic + tinyBias)
	r := fma32(-ln2High32, n, float32(square*-0.5)) - fma32(ln2Low32, n, float32(lost*-0.5))
	return fusedExp32(r, k)
}

// fusedExp32 is exp(r)·2^n, for the k that has n in its lowest bits.
func fusedExp32(r, k float32) float32 {
	rr := float32(r * r)
	high := fma32(expTerms32[0], rr, fusedHorner(r, expTerms32[1:3], 1))
	p := fma32(fma32(high, rr, fusedHorner(r, expTerms32[3:], 1)), rr, r)
	power := math.Float32frombits(math.Float32bits(k) << 23)
	return fma32(p, power, power)
}

// fusedHorner is horner without rounding products; all terms are multiplied by a power of two.
func fusedHorner(x float32, terms []float32, scale float32) float32 {
	p := terms[0] * scale
	for _, c := range terms[1:] {
		p = fma32(p, x, c*scale)
	}
	return p
}

// fma32 is x·y + z, rounded once. The product is exact in float64. Rounding their sum first there and then to
// float32 gives the same, unless the first gives a tie that there is none of.
func fma32(x, y, z float32) float32 {
	const below = 64 - 29 // bits of a float64 above those that a float32 lacks
	p, w := float64(x)*float64(y), float64(z)
	s := p + w
	if tie := math.Float64bits(s)<<below == 1<<63; tie || !(math.Abs(s) >= 0x1p-126) {
		s = toOdd(p, w, s)
	}
	return float32(s)
}

// toOdd is the sum s of p and w with 1 for its last bit if it is not exact: no number that is rounded then
// looks like a tie.
func toOdd(p, w, s float64) float64 {
	other := s - p
	lost := (p - (s - other)) + (w - other)
	b := math.Float64bits(s)
	switch {
	case b&1 == 1 || !(lost < 0 || lost > 0):
		return s
	case (lost > 0) == (s > 0):
		return math.Float64frombits(b + 1)
	}
	return math.Float64frombits(b - 1)
}

// share32 is Φ(x), given Φ(−|x|).
func share32(x, tail float32) float32 { return bySign(x, tail, 1-tail) }

func softplus32(x, beta, threshold float32) float32 {
	t := float32(x * beta)
	if t > threshold {
		return x
	}
	return (logOfOneAnd32(decay32(t)) + max(t, 0)) / beta
}

// logOfOneAnd32 is log(1+e), as 2·atanh(e/(2+e)), for 0 ≤ e ≤ 1.
func logOfOneAnd32(e float32) float32 {
	s := e / (e + 2)
	return float32(s * horner(float32(s*s), logTerms[:]))
}

// Logistic32 gives σ(x) and log(1+exp(−|x|)), to the bits of the vector kernels.
func Logistic32(x float32) (sigmoid, log float32) {
	e := decay32(x)
	return bySign(x, e, 1) / (e + 1), logOfOneAnd32(e)
}

func softplusGrad32(x, dy, beta, threshold float32) float32 {
	t := float32(x * beta)
	if t > threshold {
		return dy
	}
	return sigmoid32(t) * dy
}
