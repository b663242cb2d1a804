package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// sgd is torch.optim.SGD.
type sgd struct{}

func (sgd) name() string   { return "sgd" }
func (sgd) keys() []string { return []string{"momentum", "dampening", "nesterov"} }

func (sgd) defaults(*Config) {}

func (sgd) problems(c Config, l *usererr.List) {
	nonNegative(l, "momentum", c.Momentum)
	if math.IsNaN(c.Dampening) || math.IsInf(c.Dampening, 0) {
		l.Addf("dampening", "0 is the default", "%v is not a number", c.Dampening)
	}
	if c.Nesterov && (c.Momentum <= 0 || c.Dampening != 0) {
		l.Addf("nesterov", "set momentum above 0 and dampening to 0", "Nesterov momentum needs momentum > 0 and dampening = 0, got %v and %v", c.Momentum, c.Dampening)
	}
	c.lacks(l, "amsgrad", "amsgrad", c.AMSGrad, `use "adam" or "adamw"`)
}

func (sgd) describe(c Config, s *settings) {
	s.number("momentum", c.Momentum)
	s.number("dampening", c.Dampening)
	s.flag("nesterov", c.Nesterov)
}

func (sgd) whole() bool { return false }

func (sgd) state(c Config) []string {
	if c.Momentum == 0 {
		return nil
	}
	return []string{"momentum_buffer"}
}

func (sgd) update(c Config, lr float64, step int64, s *slot) {
	if s.wide() {
		descend[float64](c, lr, step, s)
	} else {
		descend[float32](c, lr, step, s)
	}
}

func descend[T float32 | float64](c Config, lr float64, step int64, s *slot) {
	w, g := operands[T](s)
	optimizer.SGDUpdate(w, g, stateOf[T](s, 0), T(lr), T(c.Momentum), T(c.Dampening), T(c.WeightDecay), c.Nesterov, c.Maximize, step == 1)
}

func (sgd) numbers(c Config) plan.Rule {
	return plan.Rule{
		Name: c.Name, Momentum: c.Momentum, Dampening: c.Dampening, Nesterov: c.Nesterov, Maximize: c.Maximize, WeightDecay: c.WeightDecay,
	}
}
