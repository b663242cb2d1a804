package ddp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Exchange lets layers communicate with the same layers on other ranks during a pass.
// Its calls have their own channel, and one sequence with the buckets that is the same
// on every rank, since all ranks run the same plan. It implements plan.Exchange.
type Exchange struct {
	group  *Group
	region Region
}

// ExchangeBytes is the size of the region for vectors of up to n elements.
func ExchangeBytes(n, world int) int { return Align(n * world * 8) }

// NewExchange makes an exchange that works in a region of the group's arena.
func NewExchange(g *Group, r Region) *Exchange { return &Exchange{group: g, region: r} }

// Gather returns every rank's vector in rank order; the memory is the arena's
// until the next call. All ranks pass the same length.
func (e *Exchange) Gather(own []float64) ([]float64, error) {
	if e.group.World == 1 {
		return own, nil
	}
	r := e.part(len(own) * e.group.World)
	all := tensor.View[float64](e.group.Bytes(r))
	copy(all[e.group.Rank*len(own):], own)
	return all, e.run(sdk.OpAllGather, r)
}

// Sum adds up v over all ranks, in place.
func (e *Exchange) Sum(v []float64) error {
	if e.group.World == 1 {
		return nil
	}
	r := e.part(len(v))
	sum := tensor.View[float64](e.group.Bytes(r))
	copy(sum, v)
	err := e.run(sdk.OpAllReduce, r)
	copy(v, sum)
	return err
}

// run makes a call on the channel for statistics.
func (e *Exchange) run(op sdk.Op, r Region) error {
	e.group.channel = sdk.ChannelStatistics
	defer func() { e.group.channel = sdk.ChannelJob }()
	return e.group.run(op, sdk.Sum, tensor.F64, r, 0)
}

// Channels is how many channels of a backend a job uses.
func Channels(c Config) int {
	if c.SyncBatchNorm {
		return sdk.ChannelStatistics + 1
	}
	return sdk.ChannelJob + 1
}

// part is the front of the region, as long as n elements.
func (e *Exchange) part(n int) Region {
	if n*8 > e.region.Size {
		panic("ddp: an exchange larger than its region")
	}
	return Region{e.region.Offset, n * 8}
}
