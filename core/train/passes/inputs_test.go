package passes

import (
	"testing"

	"github.com/trainctl/trainctl/core/train/data"
)

func TestUnevenInputs(t *testing.T) {
	for _, c := range []struct {
		all  []float64
		own  int
		want Inputs
	}{
		{[]float64{2, 2, 2}, 2, Inputs{Passes: 2, own: 2, Active: 3, Top: 2, Last: 2}},
		{[]float64{3, 1, 0}, 1, Inputs{Passes: 3, own: 1, Active: 2, Top: 1, Last: 0}},
		{[]float64{0, 2, 2, 1}, 0, Inputs{Passes: 2, own: 0, Active: 3, Top: 3, Last: 2}},
		{[]float64{0, 0}, 0, Inputs{}},
	} {
		if got := Uneven(c.all, c.own); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.all, got, c.want)
		}
	}
	if got := Planned(data.Step{Passes: 4, Own: 4, Mean: 8}, 3, false); got != (Inputs{Passes: 4, own: 4, Active: 3}) {
		t.Errorf("even: %+v", got)
	}
}
