package update

import "fmt"

// Divergence counts the steps in a row whose loss or gradients are not finite,
// and ends the run when there are too many. PyTorch would continue, although a NaN that
// was applied to a weight stays there and makes all later steps useless.
//
// The loss is checked in every step, which costs nothing: it is reduced over ranks anyway.
// Gradients are checked if a precision plugin requires it; otherwise, while the loss is finite,
// only in every look-th step, because checking reads them once more.
type Divergence struct {
	Limit int // steps in a row that end the run (train.max_skips); 0: none do
	Row   int // steps in a row so far
	Onset Diverged
}

// look is the number of steps after which gradients are checked.
const look = 50

// Due reports whether gradients should be checked in a step, counted from 1.
func (d *Divergence) Due(step int) bool {
	return d.Limit > 0 && (d.Row > 0 || step%min(look, d.Limit) == 0)
}

// Step records one step, and returns a *Diverged if there were too many non-finite
// ones. found describes a step that is not finite, and is called for the first in a
// row.
func (d *Divergence) Step(finite bool, found func() Diverged) error {
	if finite {
		d.Row = 0
		return nil
	}
	if d.Row++; d.Row == 1 {
		d.Onset = found()
	}
	if d.Limit == 0 || d.Row < d.Limit {
		return nil
	}
	end := d.Onset
	end.Steps = d.Row
	return &end
}

// Diverged ends a run whose loss or gradients are not finite, or whose weights are not finite at
// its end. Neither continuing nor a restart helps.
type Diverged struct {
	Step      int     // the first of the steps in a row, from 1
	Steps     int     // in a row
	Loss      float64 // of that step, over ranks
	LR        float64 // of that step
	Parameter string  // the first whose value or gradient was not finite there; "": none
	What      string  // of the parameter: "weight" or "gradient"
}

func (e *Diverged) Error() string {
	first := "every gradient was finite on this rank"
	if e.Parameter != "" {
		first = fmt.Sprintf("the first %s that was not finite is that of %s", e.What, e.Parameter)
	}
	return fmt.Sprintf("diverged at step %d: loss or gradients were not finite in %d steps in a row, the loss was %g and the learning rate %g there, and %s; fix: lower optimizer.lr, clip with train.max_norm, or raise train.max_skips",
		e.Step, e.Steps, e.Loss, e.LR, first)
}
