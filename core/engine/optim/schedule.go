package optim

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Schedule gives the learning rate of a step from nothing but the number of
// steps applied before it, so that a resumed run needs no other state and a
// skipped step moves nothing. Only a [Plateau] follows evaluations as well.
type Schedule interface {
	LR(applied int) float64

	// Momentum is the momentum of the step; false: the schedule leaves it as it is.
	Momentum(applied int) (m float64, cycles bool)
}

// NewSchedule makes the schedule of a table. stepsPerEpoch converts steps to
// epochs for unit = "epoch"; totalSteps is the length of the run, used where
// the table says "the whole run". The forms are the closed ones of
// torch/optim/lr_scheduler.py. Warm-up is a LinearLR from warmup_factor to 1: chained, it
// multiplies the schedule; sequential, the schedule begins when it has ended, and has what is left of the run.
func NewSchedule(cfg ScheduleConfig, baseLR float64, stepsPerEpoch, totalSteps int) (Schedule, error) {
	if err := cfg.Problems().Err(); err != nil {
		return nil, fmt.Errorf("lr_scheduler: %w", err)
	}
	if stepsPerEpoch < 1 {
		return nil, fmt.Errorf("lr_scheduler: %d steps per epoch", stepsPerEpoch)
	}
	s := schedule{cfg: cfg, base: baseLR, unit: 1}
	if cfg.Unit == "epoch" {
		s.unit = stepsPerEpoch
	}
	if cfg.WarmupMode == warmupSequential {
		totalSteps -= cfg.WarmupSteps
	}
	s.length = max(1, (totalSteps+s.unit-1)/s.unit)
	if cfg.Name == "plateau" {
		return &Plateau{schedule: s, lr: baseLR}, nil
	}
	return s, nil
}

type schedule struct {
	cfg    ScheduleConfig
	base   float64
	unit   int // steps in one unit
	length int // units in the whole run
}

func (s schedule) LR(applied int) float64 {
	w := s.cfg.WarmupSteps
	start, rise := 0, 1.0
	if s.cfg.WarmupMode == warmupSequential {
		start = w
	}
	if applied < w {
		rise = line(s.cfg.WarmupFactor, 1, applied, w)
	}
	if applied < start {
		return s.base * rise
	}
	return s.at((applied-start)/s.unit) * rise
}

func (s schedule) at(t int) float64 {
	c := s.cfg
	switch c.Name {
	case "step":
		return s.base * math.Pow(c.Gamma, float64(t/c.StepSize))
	case "exponential":
		return s.base * math.Pow(c.Gamma, float64(t))
	case "onecycle":
		first := s.base / c.DivFactor
		return s.cycle(t, first, s.base, first/c.FinalDivFactor)
	case "trapezoid":
		before := max(0, orElse(c.TotalIters, s.length)-c.DecayIters)
		return s.base * line(1, c.EndFactor, max(0, t-before), c.DecayIters)
	case "multistep":
		passed := sort.SearchInts(c.Milestones, t+1)
		return s.base * math.Pow(c.Gamma, float64(passed))
	case "cosine":
		period := float64(orElse(c.TMax, s.length))
		return c.EtaMin + (s.base-c.EtaMin)*(1+math.Cos(math.Pi*float64(t)/period))/2
	case "linear":
		return s.base * line(c.StartFactor, c.EndFactor, t, orElse(c.TotalIters, s.length))
	}
	return s.base
}

// Momentum implements [Schedule]: that of OneCycleLR is highest where the rate is lowest.
func (s schedule) Momentum(applied int) (m float64, cycles bool) {
	c := s.cfg
	if !c.Cycles() {
		return 0, false
	}
	return s.cycle(applied/s.unit, c.MaxMomentum, c.BaseMomentum, c.MaxMomentum), true
}

// cycle is OneCycleLR, whose max_lr is the optimizer's learning rate, at place t: a value that goes from
// first to top and then to last, with three phases by way of first. Places behind the end have the last value.
func (s schedule) cycle(t int, first, top, last float64) float64 {
	c, total := s.cfg, float64(orElse(s.cfg.TotalIters, s.length))
	ends := [3]float64{c.PctStart*total - 1, total - 1, total - 1}
	values := [4]float64{first, top, last, last}
	if c.ThreePhase {
		ends[1] = 2*c.PctStart*total - 2
		values[2] = first
	}
	at, begin := min(float64(t), total-1), 0.0
	for i, end := range ends {
		if at <= end || i == len(ends)-1 {
			part := 1.0
			if end > begin {
				part = (at - begin) / (end - begin)
			}
			return anneal(c.AnnealLinear, values[i], values[i+1], part)
		}
		begin = end
	}
	return last
}

func anneal(linear bool, from, to, part float64) float64 {
	if linear {
		return (to-from)*part + from
	}
	return to + (from-to)/2*(1+math.Cos(math.Pi*part))
}

// FollowsEpochs reports whether the schedule's position depends on how many steps an
// epoch or the run has.
func (c ScheduleConfig) FollowsEpochs() bool {
	return c.Unit == "epoch" && c.Name != "constant" && c.Name != "plateau" || c.Name == "cosine" && c.TMax == 0 || slices.Contains([]string{"linear", "onecycle", "trapezoid"}, c.Name) && c.TotalIters == 0
}

// BatchFactor is the factor of learning rates in steps of batch samples, in a run whose
// first steps had first; 0: unknown. "linear" is Goyal et al. 2017, "Accurate, Large
// Minibatch SGD", section 2.1, and "sqrt" Krizhevsky 2014, "One weird trick for parallelizing
// convolutional neural networks", section 3.2.
func (c ScheduleConfig) BatchFactor(first, batch int) float64 {
	if first == 0 || first == batch {
		return 1
	}
	ratio := float64(batch) / float64(first)
	switch c.BatchScaling {
	case "linear":
		return ratio
	case "sqrt":
		return math.Sqrt(ratio)
	}
	return 1
}

// line goes from a at t = 0 to b at t = n and stays there.
func line(a, b float64, t, n int) float64 {
	return a + (b-a)*float64(min(t, n))/float64(n)
}

func orElse(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}
