package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/trainctl/trainctl/bench/internal/pairs"
	"github.com/trainctl/trainctl/core/bench"
)

// steadied is what launch.elastic does to a step, and beside it what the measurement says of two jobs that
// are both without it.
type steadied struct {
	Elastic, Control compared
}

// compared are pairs of jobs, whose second one has launch.elastic or is the control.
type compared struct {
	Pairs []stepPair     `json:"pairs"`
	Wall  pairs.Estimate `json:"wall"` // of the second one's step by the first one's
	CPU   pairs.Estimate `json:"cpu"`
}

// stepPair is a step of two jobs that took turns, in milliseconds.
type stepPair struct {
	Wall  pairs.Pair `json:"wall_ms"` // medians of the segments
	Ratio float64    `json:"ratio"`   // of the second one to the first one, as the median of adjacent segments
	CPU   pairs.Pair `json:"cpu_ms"`  // of all processes
}

// steady compares a step of two ranks with and without launch.elastic. Two jobs run at the same time, in turn:
// the processes of one are stopped while the other one trains for a segment. So what the machine does
// meanwhile hits both alike, which runs one after the other do not see. Jobs of the same
// configuration still differ, by where their memory and their threads happen to be: therefore several pairs
// are measured, as many without any difference between the two.
func (b *measuring) steady(ctx context.Context, r *report) error {
	r.Steady = &steadied{}
	for i := range b.pairs {
		for _, c := range []struct {
			to      *compared
			elastic bool
		}{{&r.Steady.Elastic, true}, {&r.Steady.Control, false}} {
			p, err := b.takeTurns(ctx, c.elastic, i%2 == 1)
			if err != nil {
				return err
			}
			c.to.Pairs = append(c.to.Pairs, p)
			fmt.Fprintf(b.w, "pair %d of %d, second job elastic: %v: a step of %.3f and %.3f ms (%.4f), with %.3f and %.3f ms of CPU time (%.4f)\n",
				i+1, b.pairs, c.elastic, p.Wall.A, p.Wall.B, p.Ratio, p.CPU.A, p.CPU.B, p.CPU.B/p.CPU.A)
		}
	}
	r.Steady.Elastic.estimate()
	r.Steady.Control.estimate()
	_, err := fmt.Fprintf(b.w, "a step with launch.elastic by one without: %v, CPU time %v\nof two jobs without it: %v, CPU time %v\n",
		r.Steady.Elastic.Wall, r.Steady.Elastic.CPU, r.Steady.Control.Wall, r.Steady.Control.CPU)
	return err
}

// estimate fills in what the pairs say together.
func (c *compared) estimate() {
	var wall, cpu []float64
	for _, p := range c.Pairs {
		wall, cpu = append(wall, p.Ratio), append(cpu, p.CPU.B/p.CPU.A)
	}
	c.Wall, c.CPU = pairs.EstimateOf(wall), pairs.EstimateOf(cpu)
}

// takeTurns measures a pair of jobs, of which the second one may be elastic. swapped starts that one first.
func (b *measuring) takeTurns(ctx context.Context, elastic, swapped bool) (p stepPair, err error) {
	var jobs [2]*turns
	order := []int{0, 1}
	if swapped {
		order = []int{1, 0}
	}
	for _, k := range order {
		if jobs[k], err = b.newTurns(ctx, elastic && k == 1); err != nil {
			return p, err
		}
		defer jobs[k].stop()
	}
	for i := range 2 * b.segments {
		k := order[(i+1)/2%2] // A B B A: what changes steadily is on both sides
		if err := jobs[k].segment(ctx); err != nil {
			return p, err
		}
	}
	return compareTurns(jobs[0], jobs[1])
}

// compareTurns compares jobs that took turns.
func compareTurns(first, second *turns) (p stepPair, err error) {
	var a, b []float64
	if a, p.CPU.A, err = first.perStep(); err != nil {
		return p, err
	}
	if b, p.CPU.B, err = second.perStep(); err != nil {
		return p, err
	}
	var firsts, seconds, ratios []float64
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			firsts, seconds, ratios = append(firsts, a[i]), append(seconds, b[i]), append(ratios, b[i]/a[i])
		}
	}
	if len(ratios) < (len(a)+1)/2 {
		return p, fmt.Errorf("only %d of %d segments have enough steps; fix: make -segment longer", len(ratios), len(a))
	}
	p.Wall, p.Ratio = pairs.Pair{A: pairs.Median(firsts), B: pairs.Median(seconds)}, pairs.Median(ratios)
	return p, nil
}

// turns is a job that is stopped except in its segments.
type turns struct {
	*trial
	length  time.Duration
	windows []window
}

// window is a segment of a job.
type window struct {
	begin, end time.Time
	cpu        time.Duration // that all processes used in it
}

// newTurns starts a job and stops it when its steps have settled.
func (b *measuring) newTurns(ctx context.Context, elastic bool) (*turns, error) {
	t, err := b.newTrial(convnet(fmt.Sprintf("nproc_per_node = 2\nelastic = %v\n", elastic), 0))
	if err != nil {
		return nil, err
	}
	args := t.args()
	if err := t.start(exec.CommandContext(ctx, args[0], args[1:]...)); err != nil {
		return nil, err
	}
	if _, err := t.reaches(ctx, t.steps, func(all []step) bool { return len(all) > settled }); err != nil {
		t.stop()
		return nil, err
	}
	pause(t.pid())
	return &turns{trial: t, length: b.segment}, nil
}

// pid is that of the launcher.
func (t *trial) pid() int { return t.nodes[0].Process.Pid }

// segment lets the job train for a while.
func (t *turns) segment(ctx context.Context) error {
	w := window{cpu: -bench.CPUTime(t.pid()), begin: time.Now()}
	resume(t.pid())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.nodes[0].ended:
		return fmt.Errorf("it has ended early: %v\n%s", t.nodes[0].err, t.nodes[0].out.String())
	case <-time.After(t.length):
	}
	w.end = time.Now()
	pause(t.pid())
	w.cpu += bench.CPUTime(t.pid())
	t.windows = append(t.windows, w)
	return nil
}

// perStep is the time of a step in each segment, 0 where there were too few, and the CPU time of one, in
// milliseconds.
func (t *turns) perStep() (means []float64, cpu float64, err error) {
	all, err := t.steps()
	if err != nil {
		return nil, 0, err
	}
	var total time.Duration
	ended := 0
	for _, w := range t.windows {
		ms, n := w.meanStep(all)
		means, total, ended = append(means, ms), total+w.cpu, ended+n
	}
	return means, float64(total.Microseconds()) / 1e3 / float64(max(1, ended)), nil
}

// fill is how many steps at the beginning of a segment do not count: one was under way when the job was
// stopped, and the others fill caches.
const fill = 3

// meanStep is the mean time of a step of a segment, in milliseconds, 0 if it has too few, and how many ended in it.
func (w *window) meanStep(all []step) (ms float64, n int) {
	var ends []time.Time
	for _, s := range all {
		if !s.at.Before(w.begin) && s.at.Before(w.end) {
			ends = append(ends, s.at)
		}
	}
	if n = len(ends); n < 3*fill {
		return 0, n
	}
	first, last := ends[fill], ends[n-1]
	return last.Sub(first).Seconds() * 1e3 / float64(n-1-fill), n
}
