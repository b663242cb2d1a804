package passes

// Inputs are the numbers of micro-batches of all ranks in a step. They are the same on
// all ranks, but for own.
type Inputs struct {
	Passes int // micro-batches of the rank that brings the most: passes of every rank; 0: the epoch is over
	own    int // that this rank brings; in the other passes it has no input
	Active int // ranks that bring any
	Top    int // the highest of them
	Last   int // the highest of those that bring the most
}

// Even are those of a step in which every rank of a world has n.
func Even(n, world int) Inputs { return Inputs{Passes: n, own: n, Active: world} }

// Uneven are those of a step in which rank r has all[r].
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
