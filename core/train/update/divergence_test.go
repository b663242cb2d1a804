package update

import (
	"errors"
	"testing"
)

// Steps in a row count, and those in between that are finite end the row.
func TestDivergenceCountsStepsInARow(t *testing.T) {
	d := Divergence{Limit: 3}
	step := 0
	feed := func(finite ...bool) (err error) {
		for _, f := range finite {
			step++
			at := step
			if err = d.Step(f, func() Diverged { return Diverged{Step: at} }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := feed(false, false, true, false, false, true); err != nil {
		t.Fatal(err)
	}
	var end *Diverged
	if err := feed(false, false, false); !errors.As(err, &end) || end.Step != 7 || end.Steps != 3 {
		t.Errorf("%v", err)
	}
	never := Divergence{}
	for range 1000 {
		if err := never.Step(false, func() Diverged { return Diverged{} }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGradientsAreLookedAtNowAndThen(t *testing.T) {
	count := func(d Divergence, steps int) (n int) {
		for s := 1; s <= steps; s++ {
			if d.Due(s) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		d    Divergence
		want int
	}{{Divergence{Limit: 100}, 4}, {Divergence{Limit: 10}, 20}, {Divergence{}, 0}, {Divergence{Limit: 100, Row: 1}, 200}} {
		if got := count(c.d, 200); got != c.want {
			t.Errorf("%+v: %d looks in 200 steps, want %d", c.d, got, c.want)
		}
	}
}
