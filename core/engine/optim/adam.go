package optim

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/optimizer"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// adam is torch.optim.Adam.
type adam struct{}

func (adam) name() string   { return "adam" }
func (adam) keys() []string { return []string{"betas", "eps", "amsgrad"} }

func (adam) defaults(*Config) {}

func (adam) problems(c Config, l *usererr.List) {
	for _, b := range c.Betas {
		if !(b >= 0 && b < 1) {
			l.Addf("betas", "[0.9, 0.999] is the default", "%v is outside [0, 1)", b)
		}
	}
	nonNegative(l, "eps", c.Eps)
	c.lacks(l, "momentum", "momentum", c.Momentum != 0, "set betas instead")
	c.lacks(l, "dampening", "dampening", c.Dampening != 0, "remove it")
	c.lacks(l, "nesterov", "Nesterov momentum", c.Nesterov, "remove it")
}

func (adam) describe(c Config, s *settings) {
	s.text("betas", fmt.Sprintf("[%s, %s]", short(c.Betas[0]), short(c.Betas[1])))
	s.text("eps", short(c.Eps))
	s.flag("amsgrad", c.AMSGrad)
}

func (adam) whole() bool { return false }

func (adam) state(c Config) []string {
	if c.AMSGrad {
		return []string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
	}
	return []string{"exp_avg", "exp_avg_sq"}
}

func (adam) update(c Config, lr float64, step int64, s *slot) { adapt(c, lr, step, s, false) }

// adapt is an update of Adam, or with decoupled weight decay of AdamW.
func adapt(c Config, lr float64, step int64, s *slot, decoupled bool) {
	if s.wide() {
		adaptAs[float64](c, lr, step, s, decoupled)
	} else {
		adaptAs[float32](c, lr, step, s, decoupled)
	}
}

func adaptAs[T float32 | float64](c Config, lr float64, step int64, s *slot, decoupled bool) {
	w, g := operands[T](s)
	optimizer.AdamUpdate(w, g, stateOf[T](s, 0), stateOf[T](s, 1), stateOf[T](s, 2),
		lr, c.Betas[0], c.Betas[1], c.Eps, c.WeightDecay, step, decoupled, c.Maximize)
}

func (adam) numbers(c Config) plan.Rule {
	return plan.Rule{Name: c.Name, Maximize: c.Maximize, WeightDecay: c.WeightDecay, Beta1: c.Betas[0], Beta2: c.Betas[1], Eps: c.Eps}
}
