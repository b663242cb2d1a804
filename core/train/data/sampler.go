package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/tensor"
)

// Sampler shards sample indices over ranks exactly as
// torch.utils.data.DistributedSampler does (torch/utils/data/distributed.py).
// The epoch is an argument, so it cannot be forgotten.
type Sampler struct {
	n, world, rank int
	shuffle, drop  bool
	whole          bool // nothing is padded or dropped
	seed           uint64
	perRank        int // of the longest shard
	total          int // of all shards
}

// NewSampler makes the sampler of one rank over n samples. It fails when a
// rank would have no samples at all.
func NewSampler(cfg Config, runSeed uint64, n, world, rank int) (*Sampler, error) {
	if world < 1 || rank < 0 || rank >= world {
		return nil, fmt.Errorf("sampler: rank %d is outside 0..%d", rank, world-1)
	}
	s := &Sampler{n: n, world: world, rank: rank, shuffle: cfg.Shuffle, drop: cfg.DropLast, whole: cfg.Pad == PadNone, seed: cfg.SeedOr(runSeed)}
	s.perRank = samplesPerRank(n, world, cfg.DropLast)
	if s.perRank == 0 {
		return nil, usererr.Errorf("sampler", "use fewer ranks or more data", "%d samples are fewer than one for each of %d ranks with drop_last = %v", n, world, cfg.DropLast)
	}
	s.total = s.perRank * world
	if cfg.Pad == PadNone && s.total > n {
		s.total = n
	}
	if s.total < world {
		return nil, usererr.Errorf("sampler", fmt.Sprintf("use fewer ranks, more data, or pad = %q", PadRepeat), "with %d samples, some of %d ranks have none with pad = %q", n, world, PadNone)
	}
	return s, nil
}

// samplesPerRank is the length of every rank's shard: ceil(n/W), or with
// dropLast and a remainder ceil((n−W)/W), which is 0 for n < W.
func samplesPerRank(n, world int, dropLast bool) int {
	if dropLast && n%world != 0 {
		return max(0, n-1) / world
	}
	return (n + world - 1) / world
}

// Len is the number of samples this rank gets in an epoch.
func (s *Sampler) Len() int { return s.LenOf(s.rank) }

// LenOf is the number of samples that a rank gets in an epoch: equal on all ranks, unless the tail
// is neither padded nor dropped.
func (s *Sampler) LenOf(rank int) int { return (s.total - rank + s.world - 1) / s.world }

// Total is the number of samples that all ranks get in an epoch.
func (s *Sampler) Total() int { return s.total }

// Order is the order of an epoch over all ranks: the shuffled list, padded by
// repeating it from its start, truncated, or unchanged. Rank r takes positions r, r+W,
// r+2W, ….
func (s *Sampler) Order(epoch int) []int64 { return s.order(epoch, s.total) }

// order is the order of an epoch, padded or truncated to a length.
func (s *Sampler) order(epoch, length int) []int64 {
	var order []int64
	if s.shuffle {
		order = rng.NewMT(s.seed + uint64(epoch)).Perm(s.n)
	} else {
		order = make([]int64, s.n)
		for i := range order {
			order[i] = int64(i)
		}
	}
	for len(order) < length {
		order = append(order, order[:min(s.n, length-len(order))]...)
	}
	return order[:length]
}

// End is the position in an epoch's order at which the epoch ends, if this world continues after
// the first done samples, in steps of step samples. The rest is padded or truncated to a multiple
// of the world size, as a whole epoch is, so that ranks have equal shares. This is not done if the
// world size does not divide a step: shares differ anyway.
func (s *Sampler) End(done, step int) int {
	left := max(0, s.n-done)
	switch {
	case s.whole || step%s.world != 0:
	case s.drop:
		left -= left % s.world
	default:
		left = (left + s.world - 1) / s.world * s.world
	}
	return done + left
}

// rest returns this rank's indices of an epoch whose first done samples are already processed: of
// each step the r-th, (r+W)-th, …, or those that d.Shares give it. Whatever the world size was until
// then, no sample before done is repeated, and none after it is left out.
func (s *Sampler) rest(epoch, done int, d Division) []int64 {
	end := s.End(done, d.Step)
	order := s.order(epoch, end)
	mine := make([]int64, 0, (end-done)/s.world+1)
	for ; done < end; done += d.Step {
		step := order[done:min(done+d.Step, end)]
		if d.Shares != nil {
			mine = d.Shares.take(mine, step, s.rank)
			continue
		}
		for i := s.rank; i < len(step); i += s.world {
			mine = append(mine, step[i])
		}
	}
	return mine
}

// Epoch gives this rank's indices of an epoch, in order.
func (s *Sampler) Epoch(epoch int) []int64 {
	order := s.Order(epoch)
	mine := make([]int64, 0, s.perRank)
	for i := s.rank; i < len(order); i += s.world {
		mine = append(mine, order[i])
	}
	return mine
}

// OrderHash identifies an epoch's order: sha256 over its indices as
// little-endian int64.
func (s *Sampler) OrderHash(epoch int) string {
	h := sha256.Sum256(tensor.Bytes(s.Order(epoch)))
	return hex.EncodeToString(h[:])
}

// EvalShard gives the indices that one rank evaluates: every sample is on
// exactly one rank and none is repeated, so that sums over ranks are exact.
func EvalShard(n, world, rank int) []int64 {
	var mine []int64
	for i := rank; i < n; i += world {
		mine = append(mine, int64(i))
	}
	return mine
}
