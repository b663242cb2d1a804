package rundir

import (
	"slices"

	"github.com/trainctl/trainctl/core/report/event"
)

// Metric is a column of [Curves].
type Metric int

// The metrics of a step, as in event.StepDone.
const (
	Loss Metric = iota // mean over ranks
	Accuracy
	LearningRate
	GradNorm
	LossScale
	SamplesPerSec
	TokensPerSec
	StepMS
	DataMS
	CommMS
	Metrics // how many there are
)

// Cell sums up a metric over steps. Steps without the metric are not counted.
type Cell struct {
	Least, Greatest float64
	Last            float64
	Sum             float64
	N               int // finite values
	Bad             int // values that were infinite or NaN
}

// Mean is NaN without values.
func (c *Cell) Mean() float64 { return c.Sum / float64(c.N) }

func (c *Cell) add(v float64) {
	switch {
	case v-v != 0: // infinite or NaN
		c.Bad++
		return
	case c.N == 0:
		c.Least, c.Greatest = v, v
	case v < c.Least:
		c.Least = v
	case v > c.Greatest:
		c.Greatest = v
	}
	c.Last = v
	c.Sum += v
	c.N++
}

// join adds the cell of later steps.
func (c *Cell) join(d Cell) {
	switch {
	case d.N == 0:
		c.Bad += d.Bad
	case c.N == 0:
		d.Bad += c.Bad
		*c = d
	default:
		c.Least, c.Greatest, c.Last = min(c.Least, d.Least), max(c.Greatest, d.Greatest), d.Last
		c.Sum, c.N, c.Bad = c.Sum+d.Sum, c.N+d.N, c.Bad+d.Bad
	}
}

// Interval sums up consecutive steps. Steps that were repeated after a restart count every time.
type Interval struct {
	First, Last int     // steps that it covers; of the last interval, Last is the last step done
	Seconds     float64 // from the start of the run to the end of its latest step
	Steps       int     // recorded; 0: none, as between a checkpoint and the end of a lost event file
	Skipped     int     // of them, by the loss scaler
	Cells       [Metrics]Cell
}

func (v *Interval) join(w *Interval) {
	v.Last = max(v.Last, w.Last)
	v.Seconds = max(v.Seconds, w.Seconds)
	v.Steps += w.Steps
	v.Skipped += w.Skipped
	for m := range v.Cells {
		v.Cells[m].join(w.Cells[m])
	}
}

// Resolution is the maximum number of intervals of Curves.
const Resolution = 2048

// Curves are the metrics of a run's steps. Every interval but the last covers Width steps.
// Width doubles, and neighbours are joined, when there would be more than Resolution intervals.
type Curves struct {
	Width     int
	Intervals []Interval
	Total     Interval // over all steps
	Rewritten int      // how often intervals other than the last have changed: by joining them, or by repeated steps
}

// add records a step that ended so many seconds after the start of the run.
func (c *Curves) add(e *event.StepDone, seconds float64) {
	if e.Step < 1 {
		return // not ours
	}
	if c.Width == 0 {
		c.Width, c.Total.First = 1, e.Step
	}
	v := c.interval(e.Step)
	v.record(e, seconds)
	c.Total.First = min(c.Total.First, e.Step)
	c.Total.record(e, seconds)
}

func (v *Interval) record(e *event.StepDone, seconds float64) {
	v.Last, v.Seconds = max(v.Last, e.Step), max(v.Seconds, seconds)
	v.Steps++
	if e.Skipped {
		v.Skipped++
	}
	cells := &v.Cells
	cells[Loss].add(e.LossMean)
	cells[LearningRate].add(e.LR)
	cells[StepMS].add(e.StepMS)
	cells[DataMS].add(e.DataMS)
	cells[CommMS].add(e.CommMS)
	cells[SamplesPerSec].add(e.SamplesPerSec)
	if !(e.Accuracy < 0) {
		cells[Accuracy].add(e.Accuracy)
	}
	if e.Tokens != 0 {
		cells[TokensPerSec].add(e.TokensPerSec)
	}
	if e.GradNorm != 0 {
		cells[GradNorm].add(e.GradNorm)
	}
	if e.Scale != 0 {
		cells[LossScale].add(e.Scale)
	}
}

// interval is the one of a step, which may be new.
func (c *Curves) interval(step int) *Interval {
	if len(c.Intervals) == 0 {
		c.Intervals = append(c.Intervals, Interval{First: step})
	}
	for step < c.Intervals[0].First { // a restart from before the first step recorded
		if c.count(c.Intervals[0].First-step)+len(c.Intervals) > Resolution {
			c.halve()
			continue
		}
		c.Rewritten++
		c.Intervals = slices.Insert(c.Intervals, 0, Interval{First: c.Intervals[0].First - c.Width, Last: c.Intervals[0].First - 1})
	}
	first := c.Intervals[0].First
	for (step-first)/c.Width >= Resolution {
		c.halve()
	}
	i := (step - first) / c.Width
	if i < len(c.Intervals)-1 {
		c.Rewritten++
	}
	for n := len(c.Intervals); n <= i; n++ {
		c.Intervals[n-1].Last = c.Intervals[n-1].First + c.Width - 1
		c.Intervals = append(c.Intervals, Interval{First: first + n*c.Width})
	}
	return &c.Intervals[i]
}

// count is how many intervals hold that many steps.
func (c *Curves) count(steps int) int { return (steps + c.Width - 1) / c.Width }

// halve joins neighbours.
func (c *Curves) halve() {
	c.Width *= 2
	c.Rewritten++
	n := 0
	for i := 0; i < len(c.Intervals); i += 2 {
		v := c.Intervals[i]
		if i+1 < len(c.Intervals) {
			v.join(&c.Intervals[i+1])
		}
		c.Intervals[n] = v
		n++
	}
	c.Intervals = c.Intervals[:n]
}

// Coarse returns the curves with at most n intervals, n of at least 1. They share their memory with c if it has
// no more.
func (c *Curves) Coarse(n int) Curves {
	if len(c.Intervals) <= n {
		return *c
	}
	out := Curves{Width: c.Width, Intervals: slices.Clone(c.Intervals), Total: c.Total, Rewritten: c.Rewritten}
	for len(out.Intervals) > n {
		out.halve()
	}
	return out
}
