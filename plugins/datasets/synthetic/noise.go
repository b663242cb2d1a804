package synthetic

import "math"

// SplitMix64 (Steele, Lea, Flood, 2014), used as a counter-based generator.
const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// spread makes a signed 24-bit number uniform in ±√3: variance 1.
const spread = float32(1.7320508075688772 / (1 << 23))

// uniform rounds once: the conversion keeps the compiler from fusing the
// product with a later sum, which some machines would do and others not.
func uniform(bits uint32) float32 { return float32(float32(int32(bits)>>8) * spread) }

// noise fills x with the noise of one sample, two elements to a number of the
// generator.
func noise(x []float32, key uint64) {
	for len(x) >= 2 {
		key += golden
		bits := mix(key)
		x[0], x[1] = uniform(uint32(bits)), uniform(uint32(bits>>32))
		x = x[2:]
	}
	if len(x) == 1 {
		x[0] = uniform(uint32(mix(key + golden)))
	}
}

// addPattern adds the pattern, repeated, to x.
func addPattern(x, pattern []float32) {
	for len(x) > 0 {
		n := min(len(x), len(pattern))
		for i, v := range pattern[:n] {
			x[i] += v
		}
		x = x[n:]
	}
}

// patterns are rows of ±1.
func patterns(key uint64, rows int) []float32 {
	p := make([]float32, rows*period)
	for i := range p {
		p[i] = 1 - 2*float32(mix(key+uint64(i)*golden)>>63)
	}
	return p
}

// teach is the linear map of a regression: the mean of the inputs times ±1,
// scaled to variance 1. It adds in one fixed order.
func (d *Dataset) teach(target, x []float32) {
	scale := float32(1 / math.Sqrt(float64(len(x))))
	for k := range target {
		signs := d.patterns[k*period : (k+1)*period]
		var sum float32
		for i, v := range x {
			if signs[i%period] < 0 {
				v = -v
			}
			sum += v
		}
		target[k] = sum * scale
	}
}
