package rng

import "math"

// NormalF32 fills dst as tensor.normal_() does for float32 on a CPU: pairs by
// Box and Muller (1958), 16 numbers at a time from 16 elements on and one by one
// below (aten/src/ATen/native/cpu/DistributionTemplates.h). Below 16 elements the
// result is PyTorch's to the bit or the last place; above, PyTorch's vector math
// rounds a few units in the last place otherwise.
func (m *MT) NormalF32(dst []float32) {
	if len(dst) < 16 {
		for i := range dst {
			dst[i] = float32(m.normal())
		}
		return
	}
	for i := range dst {
		dst[i] = m.Float32()
	}
	for i := 0; i+16 <= len(dst); i += 16 {
		boxMuller(dst[i:][:16])
	}
	if len(dst)%16 != 0 { // the last 16 are drawn again
		tail := dst[len(dst)-16:]
		for i := range tail {
			tail[i] = m.Float32()
		}
		boxMuller(tail)
	}
}

// boxMuller turns 16 uniform numbers into normal ones.
func boxMuller(x []float32) {
	for i := range 8 {
		radius := math.Sqrt(-2 * math.Log(float64(1-x[i])))
		sin, cos := math.Sincos(2 * math.Pi * float64(x[i+8]))
		x[i], x[i+8] = float32(radius*cos), float32(radius*sin)
	}
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
