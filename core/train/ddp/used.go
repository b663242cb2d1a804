package ddp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// usedParams determines which parameters took part in a step (find_unused_parameters):
// this rank counts its own, and one all-reduce sums those of all ranks. The zero value
// treats every parameter as used and sends nothing.
type usedParams struct {
	region Region  // of the group's arena, which counts lies in
	counts []int32 // by parameter: 1 if this rank used it; after wait, the ranks that did
	ticket uint64
}

// UsageBytes is the size of the region in which a model's ranks find out which
// parameters were used.
func UsageBytes(params int) int { return Align(4 * params) }

func newUsedParams(g *Group, at Region, params int) usedParams {
	u := usedParams{region: Region{at.Offset, 4 * params}}
	u.counts = tensor.View[int32](g.Bytes(u.region))
	u.reset()
	return u
}

// reset begins another step.
func (u *usedParams) reset() { clear(u.counts) }

// mark records that a parameter took part on this rank.
func (u *usedParams) mark(param int) {
	if u.counts != nil {
		u.counts[param] = 1
	}
}

// on reports whether a parameter took part on any rank, after wait.
func (u *usedParams) on(param int) bool { return u.counts == nil || u.counts[param] > 0 }

// send starts the all-reduce.
func (u *usedParams) send(g *Group) (err error) {
	if u.counts != nil {
		u.ticket, err = g.submit(sdk.OpAllReduce, sdk.Sum, tensor.I32, u.region, 0, -1)
	}
	return err
}

// wait returns when counts are those of all ranks.
func (u *usedParams) wait(g *Group) error {
	if u.counts == nil {
		return nil
	}
	return g.wait(u.ticket, "used parameters", -1, u.region)
}
