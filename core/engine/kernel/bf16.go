package kernel

import (
	"math"

	"github.com/trainctl/trainctl/core/tensor"
)

// RoundBF16 rounds to bfloat16, subnormal numbers to a zero of their sign, as
// AVX512-BF16's conversions do (Intel, "Software Developer's Manual", volume 2,
// VCVTNEPS2BF16).
func RoundBF16(x float32) uint16 {
	h := tensor.BF16FromF32(x)
	if math.Float32bits(x)&0x7f800000 == 0 {
		return h & 0x8000
	}
	return h
}

// FactorBF16 widens a factor of a product, which takes subnormal numbers for zeros
// (as above, VDPBF16PS).
func FactorBF16(h uint16) float32 {
	if h&0x7f80 == 0 {
		return 0
	}
	return tensor.F32FromBF16(h)
}
