package rig

import (
	"fmt"
	"math"
)

// EqualParams asserts that two runs ended with the same bits in every parameter.
func EqualParams(t TB, what string, got, want Run) {
	t.Helper()
	if a, b := got.Params(t), want.Params(t); a != b {
		t.Errorf("%s: parameters %.12s, want %.12s", what, a, b)
	}
}

// EqualBits asserts that two series of losses are the same to the last bit.
func EqualBits(t TB, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d steps, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("%s: step %d of %d has loss %v, want %v", what, i+1, len(got), got[i], want[i])
			return
		}
	}
}

// SameSteps asserts that a run has taken the steps of another one, but for rounding.
func SameSteps(t TB, r, whole Run, within float64) {
	t.Helper()
	if len(r.Steps) != len(whole.Steps) {
		t.Fatalf("%d steps, undisturbed %d", len(r.Steps), len(whole.Steps))
	}
	for i, s := range r.Steps {
		w := whole.Steps[i]
		if !(math.Abs(s.LossMean-w.LossMean) <= within*(w.LossMean+within)) || s.Step != w.Step || s.Samples != w.Samples || s.LR != w.LR {
			t.Fatalf("step %d: loss %v of %d samples, undisturbed %v of %d", i+1, s.LossMean, s.Samples, w.LossMean, w.Samples)
		}
	}
}

// Continues asserts that r is the rest of a whole run after step k.
func (r Run) Continues(t TB, whole Run, k int) {
	t.Helper()
	what := fmt.Sprintf("from step %d", k)
	EqualBits(t, what, r.Losses(), whole.Losses()[k:])
	for i, s := range r.Steps {
		if w := whole.Steps[k+i]; s.Step != w.Step || s.Epoch != w.Epoch || s.LR != w.LR || s.Scale != w.Scale || s.Skipped != w.Skipped {
			t.Errorf("%s: step %+v, uninterrupted %+v", what, s, w)
		}
	}
	EqualParams(t, what, r, whole)
	if a, b := r.Summary.Eval, whole.Summary.Eval; a.Loss != b.Loss || *a.Accuracy != *b.Accuracy {
		t.Errorf("%s: evaluation %v, uninterrupted %v", what, a.Loss, b.Loss)
	}
}

// Furthest is the largest difference between two sets of weights.
func Furthest(t TB, a, b map[string][]float64) (worst float64) {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d and %d tensors", len(a), len(b))
	}
	for name, x := range a {
		y := b[name]
		if len(x) != len(y) {
			t.Fatalf("%s: %d and %d elements", name, len(x), len(y))
		}
		for i := range x {
			if d := math.Abs(x[i] - y[i]); !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}
