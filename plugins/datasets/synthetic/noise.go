package synthetic

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
)

// golden is the increment of SplitMix64 (Steele, Lea, Flood, 2014).
const golden = 0x9e3779b97f4a7c15

// spread converts a signed 24-bit number to a float uniform in ±√3: variance 1.
const spread = float32(1.7320508075688772 / (1 << 23))

// addPattern adds the pattern, repeated, to x.
func addPattern(x, pattern []float32) {
	for len(x) > 0 {
		n := min(len(x), len(pattern))
		elementwise.AddTo(x[:n], pattern[:n])
		x = x[n:]
	}
}

// patterns are rows of ±1.
func patterns(key uint64, rows int) []float32 {
	p := make([]float32, rows*period)
	for i := range p {
		p[i] = 1 - 2*float32(random.Mix(key+uint64(i)*golden)>>63)
	}
	return p
}

// teach computes the linear map of a regression: the mean of the inputs times ±1,
// scaled to variance 1. It adds in a fixed order.
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
