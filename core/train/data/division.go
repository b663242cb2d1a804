package data

// Division says how the samples of an optimizer step are divided over ranks and
// micro-batches. It is the same on all ranks.
type Division struct {
	Step       int // samples of a step over all ranks
	Micro      int // maximum number of samples in a micro-batch
	Accumulate int // maximum number of micro-batches of a rank in a step
}

// Share is how many of the n samples of a step a rank gets: every world-th, so that
// shares differ by one at most, and rank 0 has a largest one.
func Share(n, world, rank int) int { return max(0, (n-rank+world-1)/world) }

// batches is the number of micro-batches of a share.
func (d Division) batches(share int) int { return (share + d.Micro - 1) / d.Micro }

// Shapes are the sizes of a rank's micro-batches over the next n samples of an
// epoch, the first one first.
func (d Division) Shapes(n, world, rank int) (sizes []int) {
	seen := map[int]bool{}
	add := func(rows int) {
		if rows > 0 && !seen[rows] {
			seen[rows] = true
			sizes = append(sizes, rows)
		}
	}
	step := func(samples int) {
		share := Share(samples, world, rank)
		add(min(share, d.Micro))
		add(share % d.Micro)
	}
	if n >= d.Step {
		step(d.Step)
	}
	step(n % d.Step)
	return sizes
}

// Step is the next step of an epoch.
type Step struct {
	Passes int     // micro-batches of rank 0, which has the most; 0: the epoch is over
	Own    int     // of this rank
	Uneven bool    // ranks have different numbers of micro-batches
	Mean   float64 // samples per rank on average
}
