package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// rmsprop is torch.optim.RMSprop (torch/optim/rmsprop.py).
type rmsprop struct{}

func (rmsprop) name() string   { return "rmsprop" }
func (rmsprop) keys() []string { return []string{"alpha", "eps", "momentum", "centered"} }

func (rmsprop) defaults(c *Config) { c.LR = 0.01 }

func (rmsprop) problems(c Config, l *usererr.List) {
	nonNegative(l, "alpha", c.Alpha)
	nonNegative(l, "eps", c.Eps)
	nonNegative(l, "momentum", c.Momentum)
	c.lacks(l, "dampening", "dampening", c.Dampening != 0, "remove it")
	c.lacks(l, "nesterov", "Nesterov momentum", c.Nesterov, "remove it")
	c.lacks(l, "amsgrad", "amsgrad", c.AMSGrad, `use "adam" or "adamw"`)
}

func (rmsprop) describe(c Config, s *settings) {
	s.text("alpha", short(c.Alpha))
	s.text("eps", short(c.Eps))
	s.number("momentum", c.Momentum)
	s.flag("centered", c.Centered)
}

func (rmsprop) whole() bool { return false }

func (rmsprop) state(c Config) []string {
	kinds := []string{"square_avg"}
	if c.Momentum != 0 {
		kinds = append(kinds, "momentum_buffer")
	}
	if c.Centered {
		kinds = append(kinds, "grad_avg")
	}
	return kinds
}

func (rmsprop) update(c Config, lr float64, _ int64, s *slot) {
	if s.wide() {
		normalize[float64](c, lr, s)
	} else {
		normalize[float32](c, lr, s)
	}
}

// normalize divides gradients by the root of their running mean square, or with
// centered of their variance. eps is added to the root. The mean starts at zero
// and is not corrected for it.
func normalize[T float32 | float64](c Config, lr float64, s *slot) {
	w, g := operands[T](s)
	square, buf, mean := stateOf[T](s, 0), []T(nil), []T(nil)
	if c.Momentum != 0 {
		buf = stateOf[T](s, 1)
	}
	if c.Centered {
		mean = stateOf[T](s, len(s.work)-1)
	}
	rate, alpha, rest, eps, momentum, decay := T(lr), T(c.Alpha), T(1-c.Alpha), T(c.Eps), T(c.Momentum), T(c.WeightDecay)
	for i := range w {
		d := g[i]
		if c.Maximize {
			d = -d
		}
		if decay != 0 {
			d += T(decay * w[i])
		}
		square[i] = T(alpha*square[i]) + T(T(rest*d)*d)
		v := square[i]
		if mean != nil {
			mean[i] = lerp(mean[i], d, 1-c.Alpha)
			v -= T(mean[i] * mean[i])
		}
		d /= T(math.Sqrt(float64(v))) + eps
		if buf != nil {
			buf[i] = T(momentum*buf[i]) + d
			d = buf[i]
		}
		w[i] -= T(rate * d)
	}
}

// lerp goes from a to b by weight, from the nearer end as torch.lerp does
// (aten/src/ATen/native/Lerp.h).
func lerp[T float32 | float64](a, b T, weight float64) T {
	if math.Abs(weight) < 0.5 {
		return a + T(T(weight)*(b-a))
	}
	return b - T((b-a)*(1-T(weight)))
}

func (rmsprop) numbers(c Config) plan.Rule {
	return plan.Rule{Name: c.Name, Momentum: c.Momentum, Maximize: c.Maximize, WeightDecay: c.WeightDecay, Eps: c.Eps, Alpha: c.Alpha}
}
