package optim

import (
	"math"
	"strings"
)

// Plateau is torch.optim.lr_scheduler.ReduceLROnPlateau, whose factor and min_lr are gamma and
// eta_min: it lowers the learning rate when evaluations no longer improve. It is the only schedule
// with a state, which is equal on all ranks because evaluations are.
type Plateau struct {
	schedule
	lr       float64
	best     best
	bad      int // evaluations in a row that did not improve
	cooldown int // evaluations that do not count yet
}

// best is the best value of a metric so far.
type best struct {
	value float64
	known bool
}

// Higher reports whether more of a metric is better: of accuracies.
func Higher(metric string) bool { return strings.HasPrefix(metric, "eval.acc") }

// Observe takes the metric of an evaluation.
func (p *Plateau) Observe(value float64) {
	c := p.cfg
	p.bad++
	if !math.IsNaN(value) && (!p.best.known || p.better(value)) {
		p.best, p.bad = best{value, true}, 0
	}
	if p.cooldown > 0 {
		p.cooldown--
		p.bad = 0
	}
	if p.bad <= c.Patience {
		return
	}
	const eps = 1e-8 // a smaller change is none
	if lower := max(p.lr*c.Gamma, c.EtaMin); p.lr-lower > eps {
		p.lr = lower
	}
	p.cooldown, p.bad = c.Cooldown, 0
}

func (p *Plateau) better(value float64) bool {
	margin, than := p.cfg.Threshold, p.best.value
	if !p.cfg.ThresholdAbs { // of the best, as PyTorch's best·(1 ± threshold)
		margin *= than
	}
	if Higher(p.cfg.Metric) {
		return value > than+margin
	}
	return value < than-margin
}

// LR implements [Schedule].
func (p *Plateau) LR(applied int) float64 {
	s := p.schedule
	s.base = p.lr
	return s.LR(applied)
}

// Metric is the metric that Observe takes.
func (p *Plateau) Metric() string { return p.cfg.Metric }

// State is what a resumed run needs.
func (p *Plateau) State() map[string]float64 {
	out := map[string]float64{"plateau.lr": p.lr, "plateau.bad": float64(p.bad), "plateau.cooldown": float64(p.cooldown)}
	if p.best.known {
		out["plateau.best"] = p.best.value
	}
	return out
}

// Load takes a State. One without a plateau changes nothing.
func (p *Plateau) Load(state map[string]float64) {
	if lr, ok := state["plateau.lr"]; ok {
		p.lr, p.bad, p.cooldown = lr, int(state["plateau.bad"]), int(state["plateau.cooldown"])
		p.best.value, p.best.known = state["plateau.best"]
	}
}
