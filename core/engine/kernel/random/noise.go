package random

import "github.com/trainctl/trainctl/core/engine/kernel"

// golden is the increment of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014), used as a counter-based generator.
const golden = 0x9e3779b97f4a7c15

// The multipliers of SplitMix64's output function.
const (
	mix1 = 0xbf58476d1ce4e5b9
	mix2 = 0x94d049bb133111eb
)

// Mix is the output function of SplitMix64: it turns neighbouring numbers into
// unrelated ones.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * mix1
	z = (z ^ z>>27) * mix2
	return z ^ z>>31
}

// noiseConstants are how far the numbers of a vector are from its key, and the multipliers.
var noiseConstants = func() (c [10]uint64) {
	for i := range uint64(8) {
		c[i] = (i + 1) * golden
	}
	c[8], c[9] = mix1, mix2
	return c
}()

// Noise fills dst with numbers that follow from the key alone: number k of
// SplitMix64 from the key, counted from 1, gives elements 2k−2 and 2k−1, each its
// signed upper 24 bits of a half, times scale. They are uniform in ±scale·2²³.
func Noise(dst []float32, key uint64, scale float32) {
	if n := kernel.Head(len(dst)); n > 0 {
		vecNoise(&dst[0], key, scale, &noiseConstants[0], n)
		key += uint64(n/2) * golden
		dst = dst[n:]
	}
	for ; len(dst) >= 2; dst = dst[2:] {
		key += golden
		bits := Mix(key)
		dst[0], dst[1] = signed24(uint32(bits), scale), signed24(uint32(bits>>32), scale)
	}
	if len(dst) == 1 {
		dst[0] = signed24(uint32(Mix(key+golden)), scale)
	}
}

// signed24 rounds once: the conversion keeps the compiler from fusing the
// product with a later sum, which some machines would do and others not.
func signed24(bits uint32, scale float32) float32 { return float32(float32(int32(bits)>>8) * scale) }
