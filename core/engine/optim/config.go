package optim

import (
	"math"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Config is the table [optimizer]. Names and defaults are PyTorch's.
type Config struct {
	Name        string     `toml:"name"`                       // one of Names
	LR          float64    `toml:"lr"`                         // learning rate at the start, before schedules
	Momentum    float64    `toml:"momentum"`                   // sgd, lars, rmsprop
	Dampening   float64    `toml:"dampening"`                  // sgd, lars
	Nesterov    bool       `toml:"nesterov"`                   // sgd, lars; needs momentum > 0 and dampening = 0
	WeightDecay float64    `toml:"weight_decay"`               // adamw: default 0.01
	Decay       string     `toml:"decay" words:"all,matrices"` // which parameters weight_decay applies to
	Betas       [2]float64 `toml:"betas"`                      // adam, adamw
	Eps         float64    `toml:"eps"`                        // adam, adamw, lars, rmsprop
	AMSGrad     bool       `toml:"amsgrad"`                    // adam, adamw
	Maximize    bool       `toml:"maximize"`
	Groups      []Group    `toml:"groups"`    // parameters with settings of their own
	EMADecay    float64    `toml:"ema_decay"` // of moving averages of the weights; 0: none

	TrustCoefficient float64 `toml:"trust_coefficient"` // lars
	Alpha            float64 `toml:"alpha"`             // rmsprop: of the running mean square, how much of the old one is kept
	Centered         bool    `toml:"centered"`          // rmsprop: divide by the variance's root instead of the mean square's

	Args op.Args `toml:",inline"` // keys of an optimizer that the program has added, those that are given
}

// The parameters that weight decay applies to.
const (
	DecayAll      = "all"
	DecayMatrices = "matrices" // those of two dimensions and more: neither biases nor scales of norms
)

// DefaultFor gives PyTorch's defaults of one optimizer; those of SGD when the
// name is unknown, so that Problems can report it. LARS, which PyTorch has not,
// is SGD with its paper's trust coefficient.
func DefaultFor(name string) Config {
	c := Config{Name: name, LR: 1e-3, Decay: DecayAll, Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, Alpha: 0.99, TrustCoefficient: 1e-3}
	if r := c.rule(); r != nil {
		r.defaults(&c)
	}
	return c
}

// Under is the table as a schedule begins it: with the momentum that the schedule cycles from.
func (c Config) Under(s ScheduleConfig) Config {
	if s.Cycles() {
		c.setMomentum(s.MaxMomentum, c.hasBetas())
	}
	return c
}

// hasBetas reports whether the optimizer's momentum is the first of betas.
func (c Config) hasBetas() bool {
	r := c.rule()
	return r != nil && slices.Contains(r.keys(), "betas")
}

func (c *Config) setMomentum(m float64, betas bool) {
	if betas {
		c.Betas[0] = m
	} else {
		c.Momentum = m
	}
}

// Whole reports whether the update of an element depends on the whole parameter and gradient.
func (c Config) Whole() bool {
	r := c.rule()
	return r != nil && r.whole()
}

// Problems checks the table by itself.
func (c Config) Problems() usererr.List {
	var l usererr.List
	r := c.rule()
	if r == nil {
		l.Addf("name", "use "+quoted(Names()), "unknown optimizer %q", c.Name)
	}
	nonNegative(&l, "lr", c.LR)
	nonNegative(&l, "weight_decay", c.WeightDecay)
	if c.Decay != "" && c.Decay != DecayAll && c.Decay != DecayMatrices {
		l.Addf("decay", `use "all" or "matrices"`, "%q does not say which parameters decay", c.Decay)
	}
	if r != nil {
		r.problems(c, &l)
		c.checkArgs(&l)
	}
	c.groupProblems(&l)
	if !(c.EMADecay >= 0 && c.EMADecay < 1) {
		l.Addf("ema_decay", "0.999 is usual, and 0 keeps no averages", "%v is outside [0, 1)", c.EMADecay)
	}
	return l
}

// quoted lists names to choose from: "a", "b" or "c".
func quoted(names []string) string {
	last := len(names) - 1
	return `"` + strings.Join(names[:last], `", "`) + `" or "` + names[last] + `"`
}

// lacks reports a setting of another optimizer.
func (c Config) lacks(l *usererr.List, key, what string, set bool, help string) {
	if set {
		l.Addf(key, help, "%s has no %s", c.Name, what)
	}
}

func nonNegative(l *usererr.List, key string, v float64) {
	if !(v >= 0) || math.IsInf(v, 1) {
		l.Addf(key, "give a number that is 0 or more", "%v is not a finite number ≥ 0", v)
	}
}

// ScheduleConfig is the table [lr_scheduler]. Schedules count applied steps.
type ScheduleConfig struct {
	Name           string  `toml:"name" words:"constant,step,multistep,exponential,cosine,linear,onecycle,trapezoid,plateau"` // one of scheduleNames
	Unit           string  `toml:"unit" words:"epoch,step"`                                                                   // what step_size, milestones and t_max count: "epoch" or "step"
	StepSize       int     `toml:"step_size"`                                                                                 // step: units between two decays
	Gamma          float64 `toml:"gamma"`                                                                                     // step, multistep: factor of a decay
	Milestones     []int   `toml:"milestones"`                                                                                // multistep: units at which the rate decays, ascending
	TMax           int     `toml:"t_max"`                                                                                     // cosine: units of the half period; 0: the whole run
	EtaMin         float64 `toml:"eta_min"`                                                                                   // cosine: lowest rate
	StartFactor    float64 `toml:"start_factor"`                                                                              // linear: factor at the start
	EndFactor      float64 `toml:"end_factor"`                                                                                // linear: factor at the end
	TotalIters     int     `toml:"total_iters"`                                                                               // linear: units between them; 0: the whole run
	DecayIters     int     `toml:"decay_iters"`                                                                               // trapezoid: units of the decay at the end
	PctStart       float64 `toml:"pct_start"`                                                                                 // onecycle: share of the cycle in which the rate rises
	DivFactor      float64 `toml:"div_factor"`                                                                                // onecycle: the rate begins at lr over this
	FinalDivFactor float64 `toml:"final_div_factor"`                                                                          // onecycle: the rate ends at its beginning over this
	AnnealLinear   bool    `toml:"anneal_linear"`                                                                             // onecycle: the rate goes along lines, not cosines
	ThreePhase     bool    `toml:"three_phase"`                                                                               // onecycle: the rate falls as it rose, before it falls to its end
	CycleMomentum  bool    `toml:"cycle_momentum"`                                                                            // onecycle: the momentum, or Adam's first beta, falls while the rate rises
	BaseMomentum   float64 `toml:"base_momentum"`                                                                             // onecycle: momentum at the highest rate
	MaxMomentum    float64 `toml:"max_momentum"`                                                                              // onecycle: momentum at the lowest rates
	Metric         string  `toml:"metric" words:"eval.loss,eval.accuracy,eval.perplexity,eval.bits_per_byte"`                 // plateau: what has to improve
	Patience       int     `toml:"patience"`                                                                                  // plateau: evaluations without improvement before the rate falls
	Threshold      float64 `toml:"threshold"`                                                                                 // plateau: how much better an improvement is, of the best
	ThresholdAbs   bool    `toml:"threshold_abs"`                                                                             // plateau: threshold is a difference
	Cooldown       int     `toml:"cooldown"`                                                                                  // plateau: evaluations after a fall that do not count

	WarmupMode   string  `toml:"warmup_mode" words:"chained,sequential"` // whether the schedule runs during warm-up, or begins after it
	WarmupSteps  int     `toml:"warmup_steps"`                           // steps over which the rate rises linearly, for any schedule; 0: none
	WarmupFactor float64 `toml:"warmup_factor"`                          // fraction of the rate at step 0
	BatchScaling string  `toml:"batch_scaling" words:"none,linear,sqrt"` // how the rate follows a step's samples if a run continues with another number
}

// DefaultSchedule keeps the rate constant. Named schedules then start from
// PyTorch's values, except that linear falls from the full rate to 0.
func DefaultSchedule() ScheduleConfig {
	return ScheduleConfig{
		Name: "constant", Unit: "epoch", StepSize: 1, Gamma: 0.1, StartFactor: 1, WarmupMode: warmupChained, WarmupFactor: 1.0 / 3, BatchScaling: "none",
		PctStart: 0.3, Metric: "eval.loss", Patience: 10, Threshold: 1e-4, DivFactor: 25, FinalDivFactor: 1e4,
		CycleMomentum: true, BaseMomentum: 0.85, MaxMomentum: 0.95,
	}
}

// Problems checks the table by itself.
func (c ScheduleConfig) Problems() usererr.List {
	var l usererr.List
	switch c.Name {
	case "constant", "cosine", "exponential", "plateau":
	case "onecycle":
		c.cycleProblems(&l)
	case "trapezoid":
		c.endProblems(&l)
		if c.DecayIters < 1 {
			l.Addf("decay_iters", "give 1 or more", "the learning rate cannot decay over %d units", c.DecayIters)
		}
	case "step":
		if c.StepSize < 1 {
			l.Addf("step_size", "give 1 or more", "the learning rate cannot decay every %d units", c.StepSize)
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
		c.endProblems(&l)
	default:
		l.Addf("name", "use "+quoted(scheduleNames), "unknown schedule %q", c.Name)
	}
	c.commonProblems(&l)
	return l
}

var scheduleNames = []string{"constant", "step", "multistep", "exponential", "cosine", "linear", "onecycle", "trapezoid", "plateau"}

// Metrics are the results of evaluations that schedules and early stopping follow.
var Metrics = []string{"eval.loss", "eval.accuracy", "eval.perplexity", "eval.bits_per_byte"}

// Cycles reports whether the schedule changes the momentum too.
func (c ScheduleConfig) Cycles() bool { return c.Name == "onecycle" && c.CycleMomentum }

// The words of warmup_mode.
const (
	warmupChained    = "chained"
	warmupSequential = "sequential"
)

func (c ScheduleConfig) endProblems(l *usererr.List) {
	if !(c.EndFactor >= 0 && c.EndFactor <= 1) {
		l.Addf("end_factor", "0 is the default", "%v is outside [0, 1]", c.EndFactor)
	}
}

func (c ScheduleConfig) cycleProblems(l *usererr.List) {
	if !(c.PctStart >= 0 && c.PctStart <= 1) {
		l.Addf("pct_start", "0.3 is the default", "%v is outside [0, 1]", c.PctStart)
	}
	for key, v := range map[string]float64{"div_factor": c.DivFactor, "final_div_factor": c.FinalDivFactor} {
		if !(v > 0) || math.IsInf(v, 1) {
			l.Addf(key, "25 and 10000 are the defaults", "%v is not a finite number above 0", v)
		}
	}
	for key, v := range map[string]float64{"base_momentum": c.BaseMomentum, "max_momentum": c.MaxMomentum} {
		if !(v >= 0 && v < 1) {
			l.Addf(key, "0.85 and 0.95 are the defaults", "%v is outside [0, 1)", v)
		}
	}
	if c.BaseMomentum > c.MaxMomentum {
		l.Addf("base_momentum", "exchange the two", "%v is above max_momentum = %v", c.BaseMomentum, c.MaxMomentum)
	}
	if c.WarmupSteps > 0 {
		l.Addf("warmup_steps", "remove it, or raise pct_start", "onecycle has a warm-up of its own")
	}
}

func (c ScheduleConfig) commonProblems(l *usererr.List) {
	if c.Unit != "epoch" && c.Unit != "step" {
		l.Addf("unit", `use "epoch" or "step"`, "unknown unit %q", c.Unit)
	}
	switch c.BatchScaling {
	case "none", "linear", "sqrt":
	default:
		l.Addf("batch_scaling", `use "none", "linear" or "sqrt"`, "unknown rule %q", c.BatchScaling)
	}
	if c.WarmupMode != "" && c.WarmupMode != warmupChained && c.WarmupMode != warmupSequential {
		l.Addf("warmup_mode", `use "chained" or "sequential"`, "unknown mode %q", c.WarmupMode)
	}
	if c.Metric != "" && !slices.Contains(Metrics, c.Metric) {
		l.Addf("metric", "use "+quoted(Metrics), "unknown metric %q", c.Metric)
	}
	nonNegative(l, "threshold", c.Threshold)
	nonNegative(l, "gamma", c.Gamma)
	nonNegative(l, "eta_min", c.EtaMin)
	for _, v := range []struct {
		key string
		n   int
	}{{"t_max", c.TMax}, {"total_iters", c.TotalIters}, {"decay_iters", c.DecayIters}, {"patience", c.Patience}, {"cooldown", c.Cooldown}, {"warmup_steps", c.WarmupSteps}} {
		if v.n < 0 {
			l.Addf(v.key, "give 0 or more", "%d is negative", v.n)
		}
	}
	if !(c.WarmupFactor >= 0 && c.WarmupFactor <= 1) {
		l.Addf("warmup_factor", "give a fraction of the rate", "%v is outside [0, 1]", c.WarmupFactor)
	}
}
