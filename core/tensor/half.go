package tensor

import "math"

// The conversions round to nearest, ties to even, as IEEE 754 and PyTorch do.
// Overflow gives infinity, subnormals are kept, NaN stays a quiet NaN.

// BF16FromF32 rounds x to bfloat16.
func BF16FromF32(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + (b>>16)&1) >> 16)
}

// F32FromBF16 widens a bfloat16; the result is exact.
func F32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F16FromF32 rounds x to IEEE binary16.
func F16FromF32(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case b < 0x33000001: // rounds to zero
		return sign
	case b < 0x38800000: // subnormal: adding 0.5 lets the FPU round at 2^-24
		f := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(f)-0x3f000000)
	}
	b += 0xc8000fff + (b>>13)&1
	return sign | uint16(b>>13)
}

// F32FromF16 widens an IEEE binary16; the result is exact.
func F32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, man := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
	}
	f := float32(man) * (1.0 / (1 << 24))
	return math.Float32frombits(math.Float32bits(f) | sign)
}
