package rng

import (
	"math"
	"runtime"
	"sync"
)

// NormalF32 fills dst as tensor.normal_(0, std) does for float32 on a CPU: pairs by
// Box and Muller (1958), 16 numbers at a time from 16 elements on and one by one
// below (aten/src/ATen/native/cpu/DistributionTemplates.h). Below 16 elements the
// result is PyTorch's to the bit or the last place; above, PyTorch's vector math
// rounds a few units in the last place otherwise. Long tensors take all processors.
func (m *MT) NormalF32(dst []float32, std float32) {
	if len(dst) < 16 {
		for i := range dst {
			dst[i] = float32(m.normal()) * std
		}
		return
	}
	m.normalBlocks(dst, std)
	if len(dst)%16 != 0 { // the last 16 are drawn again
		tail := dst[len(dst)-16:]
		m.units(tail)
		boxMuller(tail, std)
	}
}

// chunk is how many numbers are drawn before another thread makes them normal: a
// multiple of 16, and half of a second-level cache.
const chunk = 64 << 10

// normalBlocks fills dst, whose elements beyond the last multiple of 16 stay uniform.
// Drawing is one sequence; what follows of it is not, and takes five times as long.
func (m *MT) normalBlocks(dst []float32, std float32) {
	workers := min(runtime.GOMAXPROCS(0), len(dst)/chunk)
	drawn := make(chan []float32, len(dst)/chunk+1)
	transform := func() {
		for x := range drawn {
			for ; len(x) >= 16; x = x[16:] {
				boxMuller(x[:16], std)
			}
		}
	}
	var running sync.WaitGroup
	for range workers - 1 {
		running.Go(transform)
	}
	for len(dst) > 0 {
		x := dst[:min(chunk, len(dst))]
		m.units(x)
		drawn <- x
		dst = dst[len(x):]
	}
	close(drawn)
	transform()
	running.Wait()
}

// boxMuller turns 16 uniform numbers into normal ones of a standard deviation. Each loop is short enough for
// a processor to work on several of its passes at a time.
func boxMuller(x []float32, std float32) {
	x = x[:16]
	var u [16]float64
	for i, v := range x {
		u[i] = float64(v)
	}
	for i, v := range u[:8] {
		u[i] = math.Sqrt(-2 * logOf(1-v))
	}
	for i, radius := range u[:8] {
		sin, cos := ofTurn(u[i+8])
		x[i], x[i+8] = float32(radius*cos)*std, float32(radius*sin)*std
	}
}

// logOf is log(v) for 0 < v ≤ 1, within a few units in the last place of float64: with v = m·2^e and m
// between √½ and √2 it is e·log 2 + 2·atanh((m−1)/(m+1)). Numbers from a generator would take every
// branch as often as not, so there is none.
func logOf(v float64) float64 {
	const rootHalf = 0x3fe6a09e667f3bcd // the bits of √½
	b := math.Float64bits(v)
	e := int64(b-rootHalf) >> 52
	m := math.Float64frombits(b - uint64(e)<<52)
	s := (m - 1) / (m + 1)
	z := s * s
	z2 := z * z
	low := (1./3 + z*(1./5)) + z2*(1./7+z*(1./9))
	high := (1./11 + z*(1./13)) + z2*(1./15+z*(1./17))
	z4 := z2 * z2
	sum := low + z4*(high+z4*(1./19+z*(1./21)))
	return float64(e)*math.Ln2 + 2*(s+s*z*sum)
}

// ofTurn is sin(2πu) and cos(2πu) for 0 ≤ u < 1, within a few units in the last place of float64: the
// Taylor series of the angle from the nearest quarter of a turn, which is exact, without a branch.
func ofTurn(u float64) (sin, cos float64) {
	quarter := int64(u*4 + 0.5)
	t := 2 * math.Pi * (u - float64(quarter)*0.25)
	z := t * t
	z2 := z * z
	z4 := z2 * z2
	sin = (1./6 - z*(1./120)) + z2*(1./5040-z*(1./362880)) + z4*((1./39916800-z*(1./6227020800))+z2*(1./1307674368000))
	cos = (1./24 - z*(1./720)) + z2*(1./40320-z*(1./3628800)) + z4*((1./479001600-z*(1./87178291200))+z2*(1./20922789888000))
	sin, cos = t-t*z*sin, 1-z*(1./2-z*cos)
	s, c := math.Float64bits(sin), math.Float64bits(cos)
	swap := (s ^ c) & uint64(-(quarter & 1))
	s, c = s^swap^uint64(quarter)&2<<62, c^swap^uint64(quarter+1)&2<<62
	return math.Float64frombits(s), math.Float64frombits(c)
}

// normal draws one number in double precision and keeps its twin for the next call.
func (m *MT) normal() float64 {
	if m.has {
		m.has = false
		return m.spare
	}
	u1, u2 := m.Float64(), m.Float64()
	radius := math.Sqrt(-2 * math.Log1p(-u2))
	sin, cos := math.Sincos(2 * math.Pi * u1)
	m.spare, m.has = radius*sin, true
	return radius * cos
}
