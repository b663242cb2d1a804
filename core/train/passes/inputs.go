package passes

import "github.com/trainctl/trainctl/core/train/data"

// Inputs are the numbers of micro-batches of all ranks in a step. They are the same on all ranks,
// except for own.
type Inputs struct {
	Passes int // micro-batches of the rank that brings the most: passes of every rank; 0: the epoch is over
	own    int // that this rank brings; in the other passes it has no input
	Active int // ranks that bring any micro-batches
	Top    int // the highest of them
	Last   int // the highest of those that bring the most

	Samples int // planned, over all ranks

	// mean is the average number of samples per rank, by which samples are weighted; 0: the rank's
	// own number, so that ranks count equally.
	mean float64
}

// Planned are the inputs of a step that all ranks know without asking each other. With weigh, or
// where some ranks have fewer micro-batches, samples count equally; otherwise ranks do.
func Planned(s data.Step, world int, weigh bool) Inputs {
	in := Inputs{Passes: s.Passes, own: s.Own, Active: world, Samples: s.Samples}
	if weigh || s.Uneven {
		in.mean = s.Mean
	}
	return in
}

// Uneven are the inputs of a step in which rank r has all[r] micro-batches.
func Uneven(all []float64, own int) Inputs {
	in := Inputs{own: own}
	for r, k := range all {
		if k > 0 {
			in.Active, in.Top = in.Active+1, r
		}
		if k > 0 && int(k) >= in.Passes {
			in.Last, in.Passes = r, int(k)
		}
	}
	return in
}
