package elementwise

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// normalTail32 and logistic32 take a dozen products and sums that are rounded once, and each costs a function call, because a sum in float64
// may have to be rounded again to another float32 than the exact one. That is so only where the first rounding gave a tie, which one in 2²⁹
// sums does. This file computes as if there were no ties, in float64 whose lowest 29 bits are 0, and where there is one leaves the
// block to them. Products are exact, so compilers that fuse them with sums change nothing. It goes over a block in three passes: a processor sees few of the long chains of one number at a time.

// chainBlock is how many numbers are computed together.
const chainBlock = kernel.Block

// chains computes normalTail32 or logistic32 of a block of numbers.
type chains struct {
	size, power, r [chainBlock]float64
	e, tail        [chainBlock]float32
}

// tails computes normalTail32 of up to a block of numbers.
func (t *chains) tails(x []float32) {
	if t.reduce(x) && t.exponentials(len(x)) && t.fractions(len(x)) {
		return
	}
	for i, v := range x {
		t.e[i], t.tail[i] = normalTail32(v)
	}
}

// reduce finds the n and r of which halfExp32 is 2^(n+tinyBias)·exp(r). The sums of r are exact, because n is an integer with few bits.
func (t *chains) reduce(x []float32) bool {
	for i, v := range x {
		size := float64(size32(v, tailBound))
		square := nearest(size * size)
		lost := square - size*size
		k, tie := rounded(square*-halfLog2E + (magic + tinyBias))
		if tie {
			return false
		}
		n := k - (magic + tinyBias)
		t.size[i], t.r[i] = size, nearest(square*-0.5-n*ln2High32-nearest(lost*-0.5+n*ln2Low))
		t.power[i] = math.Float64frombits((math.Float64bits(k)>>lacking&0xff + 1023 - 127) << 52)
	}
	return true
}

// exponentials is the rest of halfExp32. Its last sum is exact, unless p is too small to count.
func (t *chains) exponentials(n int) bool {
	c := &expTerms64
	for i, r := range t.r[:n] {
		rr := nearest(r * r)
		high, tie := rounded(c[1]*r + c[2])
		low, tie1 := rounded(c[3]*r + c[4])
		high, tie2 := rounded(c[0]*rr + high)
		low, tie3 := rounded(high*rr + low)
		p, tie4 := rounded(low*rr + r)
		if tie || tie1 || tie2 || tie3 || tie4 {
			return false
		}
		t.e[i] = float32(nearest(p*t.power[i] + t.power[i]))
	}
	return true
}

// fractions divides e times the polynomials tailOver and tailUnder.
func (t *chains) fractions(n int) bool {
	c, d := &tailOver64, &tailUnder64
	for i, x := range t.size[:n] {
		over, tie := rounded(c[0]*x + c[1])
		under, tie1 := rounded(d[0]*x + d[1])
		over, tie2 := rounded(over*x + c[2])
		under, tie3 := rounded(under*x + d[2])
		over, tie4 := rounded(over*x + c[3])
		under, tie5 := rounded(under*x + d[3])
		over, tie6 := rounded(over*x + c[4])
		under, tie7 := rounded(under*x + d[4])
		under, tie8 := rounded(under*x + d[5])
		if tie || tie1 || tie2 || tie3 || tie4 || tie5 || tie6 || tie7 || tie8 {
			return false
		}
		t.tail[i] = float32(t.e[i]*float32(over)) / float32(under)
	}
	return true
}

// reduceDecay is reduce for exp(−|x|), as logistic32 does.
func (t *chains) reduceDecay(x []float32) bool {
	for i, v := range x {
		h := -float64(size32(v, expBound32))
		k, tie := rounded(h*log2E + (magic + tinyBias))
		n := k - (magic + tinyBias)
		r, tie1 := rounded(h - n*ln2High32)
		r, tie2 := rounded(r - n*ln2Low)
		if tie || tie1 || tie2 {
			return false
		}
		t.r[i] = r
		t.power[i] = math.Float64frombits((math.Float64bits(k)>>lacking&0xff + 1023 - 127) << 52)
	}
	return true
}

// logistic computes logistic32 of up to a block of numbers in tail.
func (t *chains) logistic(x []float32) {
	if t.reduceDecay(x) && t.exponentials(len(x)) {
		for i, e := range t.e[:len(x)] {
			t.tail[i] = share(e * tiny)
		}
		return
	}
	for i, v := range x {
		t.tail[i] = logistic32(v)
	}
}

// eachLogistic calls f for each of x, with σ(−|of(x)|). f may change x there.
func eachLogistic(x []float32, of func(x float32) float32, f func(i int, x, less float32)) {
	var t chains
	var arguments [chainBlock]float32
	for from := 0; from < len(x); from += chainBlock {
		block := x[from:min(from+chainBlock, len(x))]
		for i, v := range block {
			arguments[i] = of(v)
		}
		t.logistic(arguments[:len(block)])
		for i, v := range block {
			f(from+i, v, t.tail[i])
		}
	}
}

// eachTail calls f for each of x, with what normalTail32 gives of it. f may change x there.
func eachTail(x []float32, f func(i int, x, e, tail float32)) {
	var t chains
	for from := 0; from < len(x); from += chainBlock {
		block := x[from:min(from+chainBlock, len(x))]
		t.tails(block)
		for i, v := range block {
			f(from+i, v, t.e[i], t.tail[i])
		}
	}
}

// The constants of float32, widened.
var (
	log2E       = float64(float32(math.Log2E))
	halfLog2E   = float64(float32(math.Log2E / 2))
	ln2Low      = float64(float32(ln2Low32))
	expTerms64  = [len(expTerms32)]float64(widened(expTerms32[:], 1))
	tailOver64  = [len(tailOver)]float64(widened(tailOver[:], tiny))
	tailUnder64 = [len(tailUnder)]float64(widened(tailUnder[:], 1))
)

// widened is terms times a power of two.
func widened(terms []float32, by float64) (wide []float64) {
	for _, t := range terms {
		wide = append(wide, float64(t)*by)
	}
	return wide
}

const (
	lacking = 29 // bits of a float64 that a float32 lacks
	half    = 1 << (lacking - 1)
)

// rounded is s with the bits of a float32, neither subnormal nor an overflow, and whether s is a tie between two.
func rounded(s float64) (r float64, tie bool) {
	b := math.Float64bits(s) + half
	top := b &^ (1<<lacking - 1)
	return math.Float64frombits(top), top == b
}

// nearest is s with the bits of a float32: of a tie, which must be exact, the even one.
func nearest(s float64) float64 {
	b := math.Float64bits(s)
	return math.Float64frombits((b + half - 1 + b>>lacking&1) &^ (1<<lacking - 1))
}
