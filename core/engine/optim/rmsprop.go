package optim

import (
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
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

func normalize[T float32 | float64](c Config, lr float64, s *slot) {
	w, g := operands[T](s)
	buf, mean := []T(nil), []T(nil)
	if c.Momentum != 0 {
		buf = stateOf[T](s, 1)
	}
	if c.Centered {
		mean = stateOf[T](s, len(s.work)-1)
	}
	optimizer.RMSpropUpdate(w, g, stateOf[T](s, 0), buf, mean, optimizer.RMSprop{LR: lr, Alpha: c.Alpha, Eps: c.Eps, Momentum: c.Momentum, WeightDecay: c.WeightDecay, Maximize: c.Maximize})
}

func (rmsprop) numbers(c Config) plan.Rule {
	return plan.Rule{Name: c.Name, Momentum: c.Momentum, Maximize: c.Maximize, WeightDecay: c.WeightDecay, Eps: c.Eps, Alpha: c.Alpha}
}
