package rng

import "math"

// permSmall is the length from which PyTorch's randperm draws 64 bits per swap.
const permSmall = math.MaxUint32 / 20

// Perm is torch.randperm(n): a permutation of 0 … n−1, modulo bias included
// (aten/src/ATen/native/TensorFactories.cpp).
func (m *MT) Perm(n int) []int64 {
	if n >= permSmall {
		return m.permLarge(n)
	}
	r := make([]int64, n)
	for i := range r {
		r[i] = int64(i)
	}
	for i := range n - 1 {
		j := i + int(m.Uint32()%uint32(n-i))
		r[i], r[j] = r[j], r[i]
	}
	return r
}

// permLarge shuffles inside out, so that it need not fill the slice first.
func (m *MT) permLarge(n int) []int64 {
	r := make([]int64, n)
	for i := range r {
		j := m.Uint64() % uint64(i+1)
		r[i] = r[j]
		r[j] = int64(i)
	}
	return r
}

// Float32 draws a number in [0, 1) with 24 random bits.
func (m *MT) Float32() float32 { return unit(m.Uint32()) }

// unit is a word's lower 24 bits as a number in [0, 1).
func unit(word uint32) float32 { return float32(word&(1<<24-1)) * (1.0 / (1 << 24)) }

// Float64 draws a number in [0, 1) with 53 random bits.
func (m *MT) Float64() float64 { return float64(m.Uint64()&(1<<53-1)) * (1.0 / (1 << 53)) }

// UniformF32 fills dst as tensor.uniform_(lo, hi) does for float32 on a CPU
// (aten/src/ATen/core/TransformationHelper.h). PyTorch's compiler fuses the
// product and the sum; here both are exact in float64 and rounded once.
func (m *MT) UniformF32(dst []float32, lo, hi float32) {
	width, low := float64(hi-lo), float64(lo)
	m.units(dst)
	for i, x := range dst {
		dst[i] = float32(float64(x)*width + low)
	}
}

// units fills dst with numbers in [0, 1).
func (m *MT) units(dst []float32) {
	for len(dst) > 0 {
		words := m.take(len(dst))
		for i, y := range words {
			dst[i] = unit(temper(y))
		}
		dst = dst[len(words):]
	}
}
