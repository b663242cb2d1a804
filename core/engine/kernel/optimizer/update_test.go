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
		"SGD's greatest": func(a, b, dst []float32) { SGDUpdate(a, b, dst, 0.1, 0.9, 0.2, 0.01, false, true, false) },
		"Adam's greatest": func(a, b, dst []float32) {
			AdamUpdate(dst, a, b, make([]float32, len(a)), nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, false, true)
		},
		"RMSprop": func(a, b, dst []float32) {
			RMSpropUpdate(a, b, dst, nil, nil, RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-8, WeightDecay: 0.01})
		},
		"RMSprop's greatest": func(a, b, dst []float32) {
			RMSpropUpdate(a, b, dst, nil, nil, RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-8, Maximize: true})
		},
		"RMSprop with momentum": func(a, b, dst []float32) {
			RMSpropUpdate(a, b, make([]float32, len(a)), dst, nil, RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-8, Momentum: 0.5})
		},
		"centered RMSprop": func(a, b, dst []float32) {
			RMSpropUpdate(a, dst, make([]float32, len(a)), nil, b, RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-8})
		},
		"centered RMSprop, mostly of the last gradient": func(a, b, dst []float32) {
			RMSpropUpdate(a, dst, make([]float32, len(a)), nil, b, RMSprop{LR: 0.1, Alpha: 0.3, Eps: 1e-8})
		},
		"centered RMSprop with momentum": func(a, b, dst []float32) {
			mean := make([]float32, len(a))
			RMSpropUpdate(a, dst, make([]float32, len(a)), b, mean, RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-8, Momentum: 0.5})
		},
		"Adam": func(a, b, dst []float32) {
			AdamUpdate(dst, a, b, make([]float32, len(a)), nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, false, false)
		},
		"AdamW": func(a, b, dst []float32) {
			AdamUpdate(a, b, make([]float32, len(a)), dst, nil, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, true, false)
		},
	})
}

// To maximize is to minimize with the other gradients, of more than are negated at a time.
func TestMaximize(t *testing.T) {
	const n = 2*cached + 21
	for name, f := range map[string]func(p, g, a, b []float32, maximize bool){
		"SGD": func(p, g, a, _ []float32, maximize bool) {
			SGDUpdate(p, g, a, 0.1, 0.9, 0.2, 0.01, true, maximize, false)
		},
		"Adam": func(p, g, a, b []float32, maximize bool) {
			AdamUpdate(p, g, a, b, b, 0.1, 0.9, 0.99, 1e-8, 0.01, 3, true, maximize)
		},
		"RMSprop": func(p, g, a, b []float32, maximize bool) {
			RMSpropUpdate(p, g, a, b, a, RMSprop{LR: 0.1, Alpha: 0.9, Momentum: 0.5, Maximize: maximize})
		},
	} {
		var results [2][3][]float32
		for i, maximize := range []bool{false, true} {
			p, g, a, b := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), make([]float32, n), make([]float32, n)
			for j := range g {
				if maximize {
					g[j] = -g[j]
				}
			}
			f(p, g, a, b, maximize)
			results[i] = [3][]float32{p, a, b}
		}
		for i, got := range results[1] {
			kerneltest.SameBits(t, name, got, results[0][i])
		}
	}
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

// Momentum of weights whose gradients stay zero ends at zero, before products with it are subnormal. The weights are
// those of PyTorch's formula, which keeps the digits.
func TestMomentumSettles(t *testing.T) {
	updates := map[string]func(p, g, momentum, square []float32){
		"SGD":      func(p, g, m, _ []float32) { SGDUpdate(p, g, m, 0.1, 0.9, 0, 0, false, false, false) },
		"Nesterov": func(p, g, m, _ []float32) { SGDUpdate(p, g, m, 0.1, 0.9, 0, 0, true, false, false) },
		"Adam": func(p, g, m, v []float32) {
			AdamUpdate(p, g, m, v, nil, 0.1, 0.9, 0.999, 1e-8, 0, 1000, false, false)
		},
		"Adam, mostly of the last gradient": func(p, g, m, v []float32) {
			AdamUpdate(p, g, m, v, nil, 0.1, 0.4, 0.999, 1e-8, 0, 1000, false, false)
		},
		"RMSprop": func(p, g, m, v []float32) {
			RMSpropUpdate(p, g, v, m, nil, RMSprop{LR: 0.1, Alpha: 0.99, Eps: 1e-8, Momentum: 0.9})
		},
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for name, update := range updates {
			const n = 37 // vectors and a rest
			p, g, m, v := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range m {
				p[i], m[i], v[i] = 1, float32(i-n/2)*0x1p-100, 1
			}
			sum := make([]float64, n)
			for range 60 {
				update(p, g, m, v)
				for i, x := range m {
					sum[i] += math.Abs(float64(x))
					if x != 0 && math.Abs(float64(x)) < 0x1p-100 {
						t.Fatalf("%s: momentum of element %d is %v, which is less than 2^-100", name, i, x)
					}
				}
			}
			for i, x := range m {
				if x != 0 || p[i] != 1 {
					t.Errorf("%s: element %d: momentum %v, weight %v, want 0 and 1", name, i, x, p[i])
				}
			}
			if sum[0] == 0 {
				t.Errorf("%s: normal momentum was lost as well", name)
			}
		}
	})
}

// Mean squares of gradients that stay zero end at zero as well, where epsilon is so large that weights cannot tell; else they keep
// their digits, by which the update is divided.
func TestSquaresSettle(t *testing.T) {
	updates := map[string]func(p, g, m, v []float32, eps float64){
		"Adam": func(p, g, m, v []float32, eps float64) {
			AdamUpdate(p, g, m, v, nil, 0.1, 0.9, 0.9, eps, 0, 1000, false, false)
		},
		"AMSGrad": func(p, g, m, v []float32, eps float64) {
			AdamUpdate(p, g, m, v, make([]float32, len(p)), 0.1, 0.9, 0.9, eps, 0, 1000, false, false)
		},
		"RMSprop": func(p, g, m, v []float32, eps float64) {
			RMSpropUpdate(p, g, v, nil, nil, RMSprop{LR: 0.1, Alpha: 0.9, Eps: eps})
		},
		"centered RMSprop with momentum": func(p, g, m, v []float32, eps float64) {
			RMSpropUpdate(p, g, v, m, make([]float32, len(p)), RMSprop{LR: 0.1, Alpha: 0.9, Eps: eps, Momentum: 0.9})
		},
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for name, update := range updates {
			const n = 37 // vectors and a rest
			for _, eps := range []float64{1e-8, 1e-20} {
				p, g, m, v := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				for i := range v {
					p[i], v[i] = 1, float32(i+1)*0x1p-128
				}
				update(p, g, m, v, eps)
				for i, got := range v {
					want := float32(0.9) * (float32(i+1) * 0x1p-128)
					if eps > 1e-9 && want < 0x1p-126 {
						want = 0
					}
					if got != want || p[i] != 1 {
						t.Errorf("%s, epsilon %g: element %d: mean square %v, weight %v, want %v and 1", name, eps, i, got, p[i], want)
					}
				}
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	const n = 1 << 15
	x, y, z, v := kerneltest.Random[float32](1, n), kerneltest.Random[float32](2, n), kerneltest.Random[float32](3, n), make([]float32, n)
	b.Run("SGD", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 20*n, func() { SGDUpdate(x, y, z, 1e-9, 0.9, 0, 0, false, false, false) })
	})
	b.Run("RMSprop", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 20*n, func() { RMSpropUpdate(x, y, v, nil, nil, RMSprop{LR: 1e-9, Alpha: 0.99, Eps: 1e-8}) })
	})
	b.Run("Adam to maximize", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 28*n, func() { AdamUpdate(x, y, z, v, nil, 1e-9, 0.9, 0.99, 1e-8, 0, 3, false, true) })
	})
	b.Run("Adam", func(b *testing.B) {
		kerneltest.BenchBandwidth(b, 28*n, func() { AdamUpdate(x, y, z, v, nil, 1e-9, 0.9, 0.99, 1e-8, 0, 3, false, false) })
	})
}
