package rundir

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/report/event"
)

// However many steps there are and in whatever order restarts repeat them, every value is in the
// interval of its step: none is lost, and no extreme.
func TestCurvesKeepExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Curves
		type seen struct {
			step int
			loss float64
		}
		var all []seen
		for range rapid.IntRange(1, 3).Draw(t, "starts") {
			first := rapid.IntRange(1, 40_000).Draw(t, "first")
			stride := rapid.IntRange(1, 3).Draw(t, "stride")
			for i := range rapid.IntRange(1, 6000).Draw(t, "steps") {
				s := seen{first + i*stride, math.Sin(float64(7 * i))}
				if i%1000 == 17 {
					s.loss *= 1e6 // a spike
				}
				all = append(all, s)
				c.add(&event.StepDone{Step: s.step, LossMean: s.loss, Accuracy: -1}, float64(len(all)))
			}
		}
		if len(c.Intervals) > Resolution {
			t.Fatalf("%d intervals", len(c.Intervals))
		}
		want := make([]Cell, len(c.Intervals))
		for _, s := range all {
			want[(s.step-c.Intervals[0].First)/c.Width].add(s.loss)
		}
		for i, v := range c.Intervals {
			if v.First != c.Intervals[0].First+i*c.Width || i+1 < len(c.Intervals) && v.Last != v.First+c.Width-1 {
				t.Fatalf("interval %d of width %d covers %d to %d", i, c.Width, v.First, v.Last)
			}
			got := v.Cells[Loss]
			if d := cmp.Diff(want[i], got, cmpopts.IgnoreFields(Cell{}, "Last"), cmpopts.EquateApprox(1e-9, 1e-6)); d != "" {
				t.Fatalf("interval %d: %s", i, d)
			}
			if v.Cells[Accuracy].N != 0 {
				t.Fatal("an accuracy that nobody reported")
			}
		}
		total := c.Total.Cells[Loss]
		coarse := c.Coarse(7)
		var sum Cell
		for _, v := range coarse.Intervals {
			sum.join(v.Cells[Loss])
		}
		if len(coarse.Intervals) > 7 || total.N != len(all) || sum.N != total.N || sum.Least != total.Least || sum.Greatest != total.Greatest {
			t.Fatalf("%d intervals with %+v, want %+v of %d steps", len(coarse.Intervals), sum, total, len(all))
		}
	})
}

// A loss that is not a number is counted, and does not hide the others.
func TestNonFiniteValuesAreCounted(t *testing.T) {
	var c Curves
	for step, loss := range []float64{1, math.NaN(), 3, math.Inf(1)} {
		c.add(&event.StepDone{Step: step + 1, LossMean: loss, Accuracy: 0.5, GradNorm: math.NaN(), Skipped: step == 1}, float64(step))
	}
	if got, want := c.Total.Cells[Loss], (Cell{Least: 1, Greatest: 3, Last: 3, Sum: 4, N: 2, Bad: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if norm := c.Total.Cells[GradNorm]; norm.N != 0 || norm.Bad != 4 || !math.IsNaN(norm.Mean()) {
		t.Errorf("%+v", norm)
	}
	if c.Total.Skipped != 1 || c.Total.Steps != 4 || c.Total.First != 1 || c.Total.Last != 4 {
		t.Errorf("%+v", c.Total)
	}
	c = Curves{}
	c.add(&event.StepDone{Step: 0}, 1)
	if c.Width != 0 {
		t.Error("step 0 was recorded")
	}
}
