package vision

import "github.com/trainctl/trainctl/core/engine/kernel/random"

// Source draws the random numbers for the augmentation of one sample. It is
// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014), seeded with a hash of the sample's identity: the numbers are the same
// whichever rank reads the sample, in any batch. It is not PyTorch's generator.
type Source struct{ state uint64 }

const golden = 0x9e3779b97f4a7c15

// NewSource starts the numbers of one sample in one epoch of a run.
func NewSource(seed uint64, epoch int, index int64) Source {
	s := random.Mix(seed + golden)
	s = random.Mix(s + uint64(epoch)*golden)
	return Source{random.Mix(s + uint64(index)*golden)}
}

// Uint64 returns the next number.
func (s *Source) Uint64() uint64 {
	s.state += golden
	return random.Mix(s.state)
}

// Below is uniform in [0, n), for n up to 2^31; the bias is below n/2^32.
func (s *Source) Below(n int) int {
	return int(s.Uint64() >> 32 * uint64(n) >> 32)
}

// Uniform is uniform in [lo, hi).
func (s *Source) Uniform(lo, hi float64) float64 {
	return lo + float64((hi-lo)*(float64(s.Uint64()>>11)*(1.0/(1<<53))))
}

// Coin returns true half of the time.
func (s *Source) Coin() bool { return s.Uint64()>>63 == 1 }
