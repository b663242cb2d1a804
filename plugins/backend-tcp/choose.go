package tcp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// All limits that decide which way a collective takes stand here, so that a
// fitted cost model can replace them. Every rank must decide alike: decisions
// depend on the call and the world size alone.

const (
	// stageSize is the largest contribution that local ranks leave in their
	// control pages: one meeting instead of two, and a copy that costs less.
	stageSize = 32 << 10

	// tileSize is how much of a buffer is reduced at a time in shared memory:
	// the tiles of all ranks stay in the second-level cache between reading
	// and writing.
	tileSize = 64 << 10

	// attachTotal bounds what a rank sends along with its call to all peers
	// together. Attaching saves a round trip and costs up to n/2 times the
	// bytes.
	attachTotal = 128 << 10
)

// attaches reports whether messages of the given size travel with the call.
func (b *Backend) attaches(op sdk.Op, bytes int) bool {
	if bytes > maxInline {
		return false
	}
	switch op {
	case sdk.OpAllGather, sdk.OpReduceScatter: // attaching sends no byte more
		return true
	}
	return bytes*(b.group.WorldSize-1) <= attachTotal
}

// chains reports whether a call goes along the hosts. Half types do not: to be
// rounded once, their sums would have to travel as float32, twice the bytes.
func (b *Backend) chains(c *sdk.Collective) bool {
	return b.topology.perHost > 0 && c.Op == sdk.OpAllReduce &&
		c.DType != tensor.F16 && c.DType != tensor.BF16 && !b.attaches(c.Op, len(c.Buf))
}

// stages reports whether a call goes through the control pages of local ranks.
func stages(c *sdk.Collective) bool {
	if c.Op == sdk.OpReduceScatter {
		return len(c.Buf) <= stageSize
	}
	return c.Count*c.DType.Size() <= stageSize
}
