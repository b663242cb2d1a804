package sweep

import (
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/report/event"
)

// Median is the table [median_stop]: the median stopping rule of Golovin et al., Google Vizier: A Service for
// Black-Box Optimization (KDD 2017), section 3.2.2.
type Median struct {
	MinEvaluations int `toml:"min_evaluations"` // a trial is not stopped before so many evaluations
	MinTrials      int `toml:"min_trials"`      // nor before so many finished trials have that many
}

// Point is the metric at an evaluation.
type Point struct {
	Step  int          `json:"step"`
	Value event.Number `json:"value"`
}

// cost is a value such that less is better; what is not a number is worst.
func cost(v float64, goal string) float64 {
	switch {
	case math.IsNaN(v):
		return math.Inf(1)
	case goal == "max":
		return -v
	}
	return v
}

// worse reports whether the best value of a trial's n evaluations is worse than the median, over the
// finished trials with as many, of the means of their first n. It returns the median and how many
// trials it is of.
func (m Median) worse(trial []Point, finished [][]Point, goal string) (median float64, of int, worse bool) {
	n := len(trial)
	if n < m.MinEvaluations {
		return 0, 0, false
	}
	best := math.Inf(1)
	for _, p := range trial {
		best = min(best, cost(float64(p.Value), goal))
	}
	var means []float64
	for _, f := range finished {
		if len(f) < n {
			continue
		}
		sum := 0.0
		for _, p := range f[:n] {
			sum += cost(float64(p.Value), goal)
		}
		means = append(means, sum/float64(n))
	}
	if len(means) < max(1, m.MinTrials) {
		return 0, len(means), false
	}
	slices.Sort(means)
	at := len(means) / 2
	median = means[at]
	if len(means)%2 == 0 {
		median = (means[at-1] + means[at]) / 2
	}
	return cost(median, goal), len(means), best > median
}
