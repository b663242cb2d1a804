package optimizer

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// Every update gives the bits of the reference.
func TestUpdateBits(t *testing.T) {
	kerneltest.SameBitsAtEachLevel(t, map[string]func(a, b, dst []float32){
		"SGD":               func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, false, false, false) },
		"SGD without decay": func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0, 0, false, false, false) },
		"SGD's first":       func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, false, false, true) },
		"plain SGD":         func(a, _, dst []float32) { SGDUpdate(dst, a, nil, 0.1, 0, 0, 0, false, false, false) },
		"SGD with decay":    func(a, _, dst []float32) { SGDUpdate(dst, a, nil, 0.1, 0, 0, 0.01, false, false, false) },
		"SGD's other way":   func(a, _, dst []float32) { SGDUpdate(dst, a, nil, 0.1, 0, 0, 0.01, false, true, false) },
		"Nesterov":          func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, true, false, false) },
		"Nesterov's first":  func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, true, false, true) },
		"average":           func(a, _, dst []float32) { Average(dst, a, 0.01) },
		"half an average":   func(a, _, dst []float32) { Average(dst, a, 0.5) },
		"AMSGrad": func(a, b, dst []float32) {
			v, most := make([]float32, len(a)), make([]float32, len(a))
			for i, x := range dst {
				v[i], most[i] = x*x, x*x*x*x
			}
			AdamUpdate(a, b, dst, v, most, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, false, false)
			copy(b, most)
		},
		"Adam": func(a, b, dst []float32) {
			AdamUpdate(dst, a, b, make([]float32, len(a)), nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, false, false)
		},
		"AdamW": func(a, b, dst []float32) {
			AdamUpdate(a, b, make([]float32, len(a)), dst, nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, true, false)
		},
	})
}

// The first step begins with the gradients themselves, whatever was there and whatever signs zeros have.
func TestFirstMomentum(t *testing.T) {
	const n = 4096 + 24
	p, g, buf := make([]float32, n), kerneltest.Random[float32](1, n), make([]float32, n)
	for i := range buf {
		buf[i] = float32(math.NaN())
	}
	g[0], g[1], g[4096], g[n-1] = 0, float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1)), float32(math.Inf(1))
	for i := range p {
		p[i] = -1 // 0 times it is -0
	}
	SGDUpdate(p, g, buf, 0.5, 0.9, 0.2, 0, false, false, true)
	for i, want := range g {
		if math.Float32bits(buf[i]) != math.Float32bits(want) || p[i] != -1-0.5*want {
			t.Fatalf("element %d: momentum %v, weight %v, want %v, %v", i, buf[i], p[i], want, -1-0.5*want)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	const n = 1 << 15
	x, y, z, v := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), kerneltest.Random[float32](3, n), make([]float32, n)
	b.Run("SGD", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 20*n, func() { SGDUpdate(x, y, z, 1e-9, 0.9, 0, 0, false, false, false) })
	})
	b.Run("Adam", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 28*n, func() { AdamUpdate(x, y, z, v, nil, 1e-9, 0.9, 0.99, 1e-8, 0, 3, false, false) })
	})
}
