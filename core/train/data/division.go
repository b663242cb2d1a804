package data

// Division says how the samples of an optimizer step are divided over ranks and
// micro-batches. It is the same on all ranks.
type Division struct {
	Step       int // samples of a step over all ranks
	Micro      int // maximum number of samples in a micro-batch
	Accumulate int // maximum number of micro-batches of a rank in a step

	Shares *Shares // nil: ranks have equal shares, and rank r every world-th sample from the r-th on
}

// Share is how many of the n samples of a step a rank gets: every world-th, so that
// shares differ by one at most, and rank 0 has a largest one.
func Share(n, world, rank int) int { return max(0, (n-rank+world-1)/world) }

// Shares divide the samples of a step in proportion to weights of the ranks. Each position in the
// step belongs to a rank. Ranks alternate in the sequence, so that a shorter step at the end of an
// epoch, which has the first of these positions, is divided in about the same proportion, and gives
// no rank more samples than a whole step does.
type Shares struct {
	owner []int32 // by position in the step: a rank
	whole []int   // by rank: samples of a whole step
}

// newShares assigns each of the step's samples to the rank that is furthest behind its weight
// (the Webster or Sainte-Laguë method, which gives exact shares where the weights divide the step).
// Weights are 1 or more.
func newShares(weights []int, step int) *Shares {
	s := &Shares{owner: make([]int32, step), whole: make([]int, len(weights))}
	for i := range s.owner {
		next := 0
		for r, w := range weights {
			if w*(2*s.whole[next]+1) > weights[next]*(2*s.whole[r]+1) {
				next = r
			}
		}
		s.owner[i] = int32(next)
		s.whole[next]++
	}
	return s
}

// Whole are the samples of a whole step by rank. The caller must not change them.
func (s *Shares) Whole() []int { return s.whole }

// of is how many of the first n samples of a step a rank gets.
func (s *Shares) of(n, rank int) (share int) {
	if n >= len(s.owner) {
		return s.whole[rank]
	}
	for _, r := range s.owner[:n] {
		if int(r) == rank {
			share++
		}
	}
	return share
}

// take appends a rank's samples of a step, which may be shorter than a whole one.
func (s *Shares) take(mine, step []int64, rank int) []int64 {
	for i, r := range s.owner[:len(step)] {
		if int(r) == rank {
			mine = append(mine, step[i])
		}
	}
	return mine
}

// Share is how many of the n samples of a step a rank gets.
func (d Division) Share(n, world, rank int) int {
	if d.Shares == nil {
		return Share(n, world, rank)
	}
	return d.Shares.of(n, rank)
}

// Rows is the maximum number of samples in a micro-batch of a rank. A rank divides its share
// evenly into as few micro-batches as Micro allows.
func (d Division) Rows(rank int) int {
	if d.Shares == nil {
		return d.Micro
	}
	whole := d.Shares.whole[rank]
	n := max(1, divideUp(whole, d.Micro))
	return max(1, divideUp(whole, n))
}

func divideUp(n, by int) int { return (n + by - 1) / by }

// batches is the number of micro-batches of a rank in a step of n samples.
func (d Division) batches(n, world, rank int) int {
	return divideUp(d.Share(n, world, rank), d.Rows(rank))
}

// spread is the largest and the smallest number of micro-batches that a rank has in a step of n
// samples.
func (d Division) spread(n, world int) (most, least int) {
	if d.Shares == nil {
		return d.batches(n, world, 0), d.batches(n, world, world-1)
	}
	for r := range world {
		k := d.batches(n, world, r)
		if most = max(most, k); r == 0 || k < least {
			least = k
		}
	}
	return most, least
}

// Weighted divides the step in proportion to the weights of the ranks, in micro-batches of at most
// limit samples; 0: in at most Accumulate of them.
func (d Division) Weighted(weights []int, limit int) Division {
	d.Shares = newShares(weights, d.Step)
	most := 0
	for _, n := range d.Shares.whole {
		most = max(most, n)
	}
	if limit == 0 {
		limit = divideUp(most, d.Accumulate)
	}
	d.Micro = min(most, limit)
	d.Accumulate = divideUp(most, d.Micro)
	return d
}

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
		share, rows := d.Share(samples, world, rank), d.Rows(rank)
		add(min(share, rows))
		add(share % rows)
	}
	if n >= d.Step {
		step(d.Step)
	}
	step(n % d.Step)
	return sizes
}

// Step is the next step of an epoch.
type Step struct {
	Passes int     // micro-batches of the rank that has the most; 0: the epoch is over
	Own    int     // of this rank
	Uneven bool    // ranks have different numbers of micro-batches
	Mean   float64 // samples per rank on average

	Samples int // over all ranks
}
