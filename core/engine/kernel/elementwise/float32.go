package elementwise

import "math"

// Functions of one float32, by the operations of gen/pointwise/formula.go and gen/pointwise/functions.go, one
// for one: a product is rounded before it is added, which the conversions say, so vectors
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

// expParts32 gives exp(r) − 1 with r = h − n·ln 2 − less, and 2^(n+bias).
func expParts32(h, less float32, bias float32) (rest, power float32) {
	k := float32(h*float32(math.Log2E)) + (magic + bias)
	n := k - (magic + bias)
	r := (h - float32(n*ln2High32)) - (float32(n*ln2Low32) + less)
	square := float32(r * r)
	rest = float32(square*expTerms32[0]) + horner(r, expTerms32[1:3])
	rest = float32(rest*square) + horner(r, expTerms32[3:])
	rest = float32(rest*square) + r
	return rest, math.Float32frombits(math.Float32bits(k) << 23)
}

// exp32 is exp(h − less)·2^tinyBias for h ≤ 0.
func exp32(h, less float32) float32 {
	rest, power := expParts32(h, less, tinyBias)
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

func negative(x float32) bool { return math.Float32bits(x)>>31 != 0 }

// decay32 is exp(−|x|).
func decay32(x float32) float32 { return exp32(-size32(x, expBound32), 0) * tiny }

func sigmoid32(x float32) float32 {
	e := decay32(x)
	if negative(x) {
		return e / (e + 1)
	}
	return 1 / (e + 1)
}

// sigmoids32 gives σ(x) and σ(−x), from 1/(1+e).
func sigmoids32(x float32) (at, opposite float32) {
	e := decay32(x)
	share := 1 / (e + 1)
	if negative(x) {
		return float32(e * share), share
	}
	return share, float32(e * share)
}

// tanh32 is −p/(2+p) with p = exp(−2|x|) − 1, with the sign of x.
func tanh32(x float32) float32 {
	const bound = 10
	rest, power := expParts32(size32(x, bound)*-2, 0, 0)
	p := float32(power*rest) + (power - 1)
	y := abs32(p / (p + 2))
	if negative(x) {
		return -y
	}
	return y
}

func silu32(x float32) float32 { return x * sigmoid32(x) }

func siluGrad32(x, dy float32) float32 {
	at, opposite := sigmoids32(x)
	return float32(at*(float32(x*opposite)+1)) * dy
}

// normalTail32 gives exp(−x²/2)·2^tinyBias and Φ(−|x|). |x| is split, so that its square
// is exact.
func normalTail32(x float32) (e, tail float32) {
	const bound = 14.5
	size := size32(x, bound)
	upper := math.Float32frombits(math.Float32bits(size) &^ 0xfff)
	less := float32(float32((size-upper)*(size+upper)) * 0.5)
	e = exp32(float32(float32(upper*upper)*-0.5), less)
	return e, float32(e*(horner(size, tailOver[:])*tiny)) / horner(size, tailUnder[:])
}

// share32 is Φ(x), given Φ(−|x|).
func share32(x, tail float32) float32 {
	if negative(x) {
		return tail
	}
	return 1 - tail
}

// softplus32 takes log(1+e) as 2·atanh(e/(2+e)).
func softplus32(x, beta, threshold float32) float32 {
	t := float32(x * beta)
	if t > threshold {
		return x
	}
	e := decay32(t)
	s := e / (e + 2)
	return (float32(s*horner(float32(s*s), logTerms[:])) + max(t, 0)) / beta
}

func softplusGrad32(x, dy, beta, threshold float32) float32 {
	t := float32(x * beta)
	if t > threshold {
		return dy
	}
	return sigmoid32(t) * dy
}
