package infer

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/base/rng"
)

// Sampling says how a token is chosen from its logits.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the largest
	TopK        int     // keeps this many of the largest, and those equal to the smallest of them; 0: all
	TopP        float64 // keeps the smallest set of the largest whose probabilities add up to this; 1: all
	Seed        uint64
}

// Sampler draws tokens: temperature, top-k and top-p, in this order and with the ties of
// transformers' generate, then one random number of the Mersenne Twister.
type Sampler struct {
	Sampling
	draws *rng.MT
	order []candidate
}

type candidate struct {
	token int32
	p     float64 // the logit, then the probability
}

// newSampler starts at the first random number of the seed.
func newSampler(s Sampling) *Sampler { return &Sampler{Sampling: s, draws: rng.NewMT(s.Seed)} }

// Next chooses a token. NaNs are never chosen unless there is nothing else.
func (s *Sampler) Next(logits []float32) int32 {
	if s.Temperature == 0 {
		return largest(logits)
	}
	kept := s.keep(logits)
	sum := 0.0
	for _, c := range kept {
		sum += c.p
	}
	at := s.draws.Float64() * sum
	for _, c := range kept {
		if at -= c.p; at < 0 {
			return c.token
		}
	}
	return kept[0].token
}

func largest(logits []float32) (best int32) {
	top := math.Inf(-1)
	for i, v := range logits {
		if float64(v) > top {
			best, top = int32(i), float64(v)
		}
	}
	return best
}

// keep returns the tokens that may be drawn, the likeliest first, with weights in proportion to
// their probabilities.
func (s *Sampler) keep(logits []float32) []candidate {
	s.order = s.order[:0]
	for i, v := range logits {
		if v == v {
			s.order = append(s.order, candidate{int32(i), float64(v) / s.Temperature})
		}
	}
	if len(s.order) == 0 {
		return append(s.order, candidate{0, 1})
	}
	// Of tokens that are equally likely top-p keeps the later ones.
	slices.SortFunc(s.order, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(b.token, a.token))
	})
	kept := s.order
	if k := s.TopK; k > 0 && k < len(kept) {
		for k < len(kept) && kept[k].p == kept[k-1].p {
			k++
		}
		kept = kept[:k]
	}
	top, sum := kept[0].p, 0.0
	for i := range kept {
		kept[i].p = math.Exp(kept[i].p - top)
		sum += kept[i].p
	}
	if s.TopP < 1 {
		kept = kept[:nucleus(kept, s.TopP*sum)]
	}
	return kept
}

// nucleus returns how many of the likeliest tokens it takes for their probabilities to add up to p, at least
// one.
func nucleus(kept []candidate, p float64) int {
	for i, c := range kept {
		if p -= c.p; p <= 0 {
			return i + 1
		}
	}
	return len(kept)
}
