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

// boxMuller turns 16 uniform numbers into normal ones of a standard deviation.
func boxMuller(x []float32, std float32) {
	for i := range 8 {
		radius := math.Sqrt(-2 * math.Log(float64(1-x[i])))
		sin, cos := math.Sincos(2 * math.Pi * float64(x[i+8]))
		x[i], x[i+8] = float32(radius*cos)*std, float32(radius*sin)*std
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
