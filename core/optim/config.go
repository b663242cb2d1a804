package optim

import (
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/diag"
)

// Config is the table [optimizer]. Names and defaults are PyTorch's.
type Config struct {
	Name        string     `toml:"name" words:"sgd,adam,adamw,lars"` // "sgd", "adam", "adamw" or "lars"
	LR          float64    `toml:"lr"`                               // learning rate at the start, before schedules
	Momentum    float64    `toml:"momentum"`                         // sgd, lars
	Dampening   float64    `toml:"dampening"`                        // sgd, lars
	Nesterov    bool       `toml:"nesterov"`                         // sgd, lars; needs momentum > 0 and dampening = 0
	WeightDecay float64    `toml:"weight_decay"`                     // adamw: default 0.01
	Betas       [2]float64 `toml:"betas"`                            // adam, adamw
	Eps         float64    `toml:"eps"`                              // adam, adamw, lars
	AMSGrad     bool       `toml:"amsgrad"`                          // adam, adamw
	Maximize    bool       `toml:"maximize"`

	TrustCoefficient float64 `toml:"trust_coefficient"` // lars
}

// Default is plain SGD with PyTorch's values.
func Default() Config { return DefaultFor("sgd") }

// DefaultFor gives PyTorch's defaults of one optimizer; those of SGD when the
// name is unknown, so that Problems can report it. LARS, which PyTorch has not,
// is SGD with its paper's trust coefficient.
func DefaultFor(name string) Config {
	c := Config{Name: name, LR: 1e-3, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, TrustCoefficient: 1e-3}
	if name == "adamw" {
		c.WeightDecay = 0.01
	}
	return c
}

// Problems checks the table by itself.
func (c Config) Problems() diag.List {
	var l diag.List
	switch c.Name {
	case "sgd", "adam", "adamw", "lars":
	default:
		l.Addf("name", `use "sgd", "adam", "adamw" or "lars"`, "unknown optimizer %q", c.Name)
	}
	nonNegative(&l, "lr", c.LR)
	nonNegative(&l, "weight_decay", c.WeightDecay)
	if c.descends() {
		c.sgdProblems(&l)
	}
	if c.Name == "lars" {
		nonNegative(&l, "eps", c.Eps)
		nonNegative(&l, "trust_coefficient", c.TrustCoefficient)
	}
	if c.Name == "adam" || c.Name == "adamw" {
		c.adamProblems(&l)
	}
	return l
}

// descends is true of SGD and of LARS, which is SGD with a rate for each parameter.
func (c Config) descends() bool { return c.Name == "sgd" || c.Name == "lars" }

func (c Config) sgdProblems(l *diag.List) {
	nonNegative(l, "momentum", c.Momentum)
	if math.IsNaN(c.Dampening) || math.IsInf(c.Dampening, 0) {
		l.Addf("dampening", "0 is the default", "%v is not a number", c.Dampening)
	}
	if c.Nesterov && (c.Momentum <= 0 || c.Dampening != 0) {
		l.Addf("nesterov", "set momentum above 0 and dampening to 0", "Nesterov momentum needs momentum > 0 and dampening = 0, got %v and %v", c.Momentum, c.Dampening)
	}
	if c.AMSGrad {
		l.Addf("amsgrad", `use "adam" or "adamw"`, "%s has no amsgrad", c.Name)
	}
}

func (c Config) adamProblems(l *diag.List) {
	for _, b := range c.Betas {
		if !(b >= 0 && b < 1) {
			l.Addf("betas", "[0.9, 0.999] is the default", "%v is outside [0, 1)", b)
		}
	}
	nonNegative(l, "eps", c.Eps)
	if c.Momentum != 0 {
		l.Addf("momentum", "set betas instead", "%s has no momentum", c.Name)
	}
	if c.Dampening != 0 {
		l.Addf("dampening", "leave it out", "%s has no dampening", c.Name)
	}
	if c.Nesterov {
		l.Addf("nesterov", "leave it out", "%s has no Nesterov momentum", c.Name)
	}
}

func nonNegative(l *diag.List, key string, v float64) {
	if !(v >= 0) || math.IsInf(v, 1) {
		l.Addf(key, "give a number that is 0 or more", "%v is not a finite number ≥ 0", v)
	}
}

// ScheduleConfig is the table [lr_scheduler]. Schedules count applied steps.
type ScheduleConfig struct {
	Name         string  `toml:"name" words:"constant,step,multistep,cosine,linear"` // "constant", "step", "multistep", "cosine" or "linear"
	Unit         string  `toml:"unit" words:"epoch,step"`                            // what step_size, milestones and t_max count: "epoch" or "step"
	StepSize     int     `toml:"step_size"`                                          // step: units between two decays
	Gamma        float64 `toml:"gamma"`                                              // step, multistep: factor of a decay
	Milestones   []int   `toml:"milestones"`                                         // multistep: units at which the rate decays, ascending
	TMax         int     `toml:"t_max"`                                              // cosine: units of the half period; 0: the whole run
	EtaMin       float64 `toml:"eta_min"`                                            // cosine: lowest rate
	StartFactor  float64 `toml:"start_factor"`                                       // linear: factor at the start
	EndFactor    float64 `toml:"end_factor"`                                         // linear: factor at the end
	TotalIters   int     `toml:"total_iters"`                                        // linear: units between them; 0: the whole run
	WarmupSteps  int     `toml:"warmup_steps"`                                       // steps over which the rate rises linearly, for any schedule; 0: none
	WarmupFactor float64 `toml:"warmup_factor"`                                      // fraction of the rate at step 0
}

// DefaultSchedule keeps the rate constant. Named schedules then start from
// PyTorch's values, except that linear falls from the full rate to 0.
func DefaultSchedule() ScheduleConfig {
	return ScheduleConfig{Name: "constant", Unit: "epoch", StepSize: 1, Gamma: 0.1, StartFactor: 1, WarmupFactor: 1.0 / 3}
}

// Problems checks the table by itself.
func (c ScheduleConfig) Problems() diag.List {
	var l diag.List
	switch c.Name {
	case "constant", "cosine":
	case "step":
		if c.StepSize < 1 {
			l.Addf("step_size", "give 1 or more", "%d units between two decays", c.StepSize)
		}
	case "multistep":
		if len(c.Milestones) == 0 {
			l.Addf("milestones", "milestones = [30, 60]", "multistep needs milestones")
		}
		if !slices.IsSorted(c.Milestones) {
			l.Addf("milestones", "sort them", "%v is not ascending", c.Milestones)
		}
	case "linear":
		if !(c.StartFactor > 0 && c.StartFactor <= 1) {
			l.Addf("start_factor", "1 is the default", "%v is outside (0, 1]", c.StartFactor)
		}
		if !(c.EndFactor >= 0 && c.EndFactor <= 1) {
			l.Addf("end_factor", "0 is the default", "%v is outside [0, 1]", c.EndFactor)
		}
	default:
		l.Addf("name", `use "constant", "step", "multistep", "cosine" or "linear"`, "unknown schedule %q", c.Name)
	}
	c.commonProblems(&l)
	return l
}

func (c ScheduleConfig) commonProblems(l *diag.List) {
	if c.Unit != "epoch" && c.Unit != "step" {
		l.Addf("unit", `use "epoch" or "step"`, "unknown unit %q", c.Unit)
	}
	nonNegative(l, "gamma", c.Gamma)
	nonNegative(l, "eta_min", c.EtaMin)
	for _, v := range []struct {
		key string
		n   int
	}{{"t_max", c.TMax}, {"total_iters", c.TotalIters}, {"warmup_steps", c.WarmupSteps}} {
		if v.n < 0 {
			l.Addf(v.key, "give 0 or more", "%d is negative", v.n)
		}
	}
	if !(c.WarmupFactor >= 0 && c.WarmupFactor <= 1) {
		l.Addf("warmup_factor", "give a fraction of the rate", "%v is outside [0, 1]", c.WarmupFactor)
	}
}
