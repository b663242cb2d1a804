package optim

import "math"

type float interface{ ~float32 | ~float64 }

// Products are rounded by an explicit conversion before they are added, so
// that no compiler fuses them and every machine gives the same bits.

// adam applies torch/optim/adam.py, _single_tensor_adam, to one tensor; with
// decoupled decay it is AdamW. vmax is nil without AMSGrad, step counts from 1.
func adam[T float](c Config, lr float64, step int64, w, g, m, v, vmax []T) {
	var (
		decoupled = c.Name == "adamw"
		decay     = T(c.WeightDecay)
		shrink    = T(1 - lr*c.WeightDecay)
		b2, w2    = T(c.Betas[1]), T(1 - c.Betas[1])
		size      = T(lr / (1 - math.Pow(c.Betas[0], float64(step))))
		root      = T(math.Sqrt(1 - math.Pow(c.Betas[1], float64(step))))
		eps       = T(c.Eps)
	)
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i, x := range w {
		d := g[i]
		if c.Maximize {
			d = -d
		}
		switch {
		case decay == 0:
		case decoupled:
			x = T(x * shrink)
		default:
			d += T(decay * x)
		}
		m[i] = lerp(m[i], d, 1-c.Betas[0])
		v[i] = T(v[i]*b2) + T(T(w2*d)*d)
		second := v[i]
		if vmax != nil {
			vmax[i] = max(vmax[i], second)
			second = vmax[i]
		}
		den := T(math.Sqrt(float64(second)))/root + eps
		w[i] = x - T(T(size*m[i])/den)
	}
}

// lerp is torch.lerp: it starts from the nearer end (aten/src/ATen/native/Lerp.h).
func lerp[T float](a, b T, weight float64) T {
	if weight < 0.5 {
		return a + T(T(weight)*(b-a))
	}
	return b - T((b-a)*T(1-weight))
}
