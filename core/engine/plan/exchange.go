package plan

import "github.com/trainctl/trainctl/core/engine/op"

// Exchange is how a step works with the same step on the other ranks in the
// middle of a run. Every rank makes the same calls in the same order, because
// all run the same plan; a call returns when all ranks have made it.
type Exchange interface {
	// Gather returns what all ranks passed, in rank order one behind the other.
	// The result is valid until the next call.
	Gather(mine []float64) (all []float64, err error)

	// Sum adds up v over all ranks in place, in rank order.
	Sum(v []float64) error
}

// MergeMoments combines what ranks gathered for a batch norm, c means, c biased variances
// and the number of elements of each, in rank order, and passes every channel's to set
// (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
// sample variances", 1979). Ranks without elements do not count.
func MergeMoments(all []float64, c int, set func(ch int, mean, variance, count float64)) {
	for i := range c {
		var count, mean, square float64
		for part := all; len(part) > 0; part = part[2*c+1:] {
			k := part[2*c]
			if k < 1 {
				continue
			}
			delta := part[i] - mean
			square += part[c+i]*k + delta*delta*count*k/(count+k)
			count += k
			mean += delta * k / count
		}
		set(i, mean, square/max(count, 1), count)
	}
}

// Exchanges are the lengths of the vectors that a run exchanges, in the order
// of its calls of Exchange. Ranks with the same plan have the same.
func (p *Plan) Exchanges() (lengths []int) {
	for i := range p.steps {
		if n := p.steps[i].Exchanges(); n > 0 {
			lengths = append(lengths, n)
		}
	}
	return lengths
}

// Shadow takes a rank without a batch through a training run: it makes the
// calls of x and of onGrad that the run would make, in their places, and
// computes nothing. What it exchanges is zero, of no elements. x may be nil,
// as for a run.
func (p *Plan) Shadow(x Exchange, onGrad func(param int)) error {
	for i := range p.steps {
		if err := p.steps[i].shadow(x); err != nil {
			return err
		}
		for _, param := range p.steps[i].Complete {
			onGrad(param)
		}
	}
	return nil
}

func (s *Step) shadow(x Exchange) (err error) {
	n := s.Exchanges()
	switch {
	case n == 0 || x == nil:
	case op.StepOf(s.Op).Exchange.Gather:
		_, err = x.Gather(make([]float64, n))
	default:
		err = x.Sum(make([]float64, n))
	}
	return err
}

// Exchanges is the length of the vector that the step exchanges; 0 for none.
func (s *Step) Exchanges() int {
	if x := op.StepOf(s.Op).Exchange; x != nil {
		return x.Len(specs(s.In), specs(s.Out))
	}
	return 0
}
