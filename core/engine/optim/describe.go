package optim

import (
	"fmt"
	"strconv"
	"strings"
)

// StateTensors is how many tensors of a parameter's size a rule keeps.
func StateTensors(c Config) int {
	n := len(c.rule().state(c))
	if c.EMADecay > 0 {
		n++
	}
	return n
}

// String describes the rule with the settings that are not zero: "sgd lr=0.05
// momentum=0.9".
func (c Config) String() string {
	s := settings{c.Name, "lr=" + short(c.LR)}
	if r := c.rule(); r != nil {
		r.describe(c, &s)
	}
	s.number("weight_decay", c.WeightDecay)
	s.flag("of matrices", c.Decay == DecayMatrices && c.WeightDecay != 0)
	s.flag("maximize", c.Maximize)
	s.number("ema_decay", c.EMADecay)
	if n := len(c.Groups); n > 0 {
		s.text("groups", strconv.Itoa(n))
	}
	return strings.Join(s, " ")
}

// settings are the words that describe an optimizer.
type settings []string

func (s *settings) text(name, v string) { *s = append(*s, name+"="+v) }

func (s *settings) number(name string, v float64) {
	if v != 0 {
		s.text(name, short(v))
	}
}

func (s *settings) flag(name string, set bool) {
	if set {
		*s = append(*s, name)
	}
}

// String names the schedule with the settings it uses.
func (c ScheduleConfig) String() string {
	s := c.Name
	switch c.Name {
	case "step":
		s += fmt.Sprintf(" by %s every %d %ss", short(c.Gamma), c.StepSize, c.Unit)
	case "multistep":
		s += fmt.Sprintf(" by %s at %ss %v", short(c.Gamma), c.Unit, c.Milestones)
	case "plateau":
		s += fmt.Sprintf(" by %s after %d evaluations without a better %s", short(c.Gamma), c.Patience+1, c.Metric)
	case "exponential":
		s += fmt.Sprintf(" by %s every %s", short(c.Gamma), c.Unit)
	case "onecycle":
		s += fmt.Sprintf(" over %s, up to %s of it", c.span(c.TotalIters), short(c.PctStart))
		if c.Cycles() {
			s += fmt.Sprintf(", momentum %s to %s", short(c.MaxMomentum), short(c.BaseMomentum))
		}
	case "trapezoid":
		s += fmt.Sprintf(" over %s, to ×%s in the last %d %ss", c.span(c.TotalIters), short(c.EndFactor), c.DecayIters, c.Unit)
	case "cosine":
		s += fmt.Sprintf(" to %s over %s", short(c.EtaMin), c.span(c.TMax))
	case "linear":
		s += fmt.Sprintf(" from ×%s to ×%s over %s", short(c.StartFactor), short(c.EndFactor), c.span(c.TotalIters))
	}
	if c.BatchScaling != "none" {
		s += fmt.Sprintf(", scaled with the batch (%s)", c.BatchScaling)
	}
	if c.WarmupSteps > 0 {
		s += fmt.Sprintf(", warm-up from ×%s over %d steps", short(c.WarmupFactor), c.WarmupSteps)
		if c.WarmupMode == warmupSequential {
			s += " before it"
		}
	}
	return s
}

func (c ScheduleConfig) span(n int) string {
	if n == 0 {
		return "the run"
	}
	return fmt.Sprintf("%d %ss", n, c.Unit)
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
