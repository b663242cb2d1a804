package report

import "testing"

func TestMetricsAreOfTheirStep(t *testing.T) {
	m := Metrics{}
	m.Set("train.loss", 1, 4)
	m.Set("eval.loss", 2, 4)
	m.Set("train.loss", 3, 5)
	if got := m.Of(5); len(got) != 1 || got["train.loss"] != 3 {
		t.Errorf("%v", got)
	}
}
