package tcp

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
)

// Every rank decides here how to run a collective. All ranks must make the same decision, so it
// depends only on the call, the world size, the options and the cost model that the ranks have
// agreed on.

const (
	// stageSize is the largest contribution that local ranks copy to their
	// control pages: that needs one barrier instead of two.
	stageSize = 32 << 10

	// tileSize is how much of a buffer is reduced at a time in shared memory:
	// the tiles of all ranks stay in the second-level cache between reading
	// and writing.
	tileSize = 64 << 10

	// attachTotal bounds what a root sends with its calls, over all peers. This
	// saves a round trip and sends up to n/2 times the bytes.
	attachTotal = 128 << 10
)

// The values of the option algorithm.
const (
	algorithmAuto     = "auto"
	algorithmDirect   = "direct"
	algorithmMesh     = "mesh"
	algorithmRing     = "ring"
	algorithmDoubling = "doubling"
	algorithmHalving  = "halving"
	algorithmTree     = "tree"
)

// algorithmChain passes sums from host to host, see hosts_linux.go. It is no value of the option: it
// is for hosts with several ranks.
const algorithmChain = "chain"

// attaches reports whether the payload is sent with the calls.
func (b *Backend) attaches(c *sdk.Collective) bool {
	size := c.Count * c.DType.Size()
	if size == 0 || size > maxInline || c.Pairwise() || c.Op == sdk.OpBarrier {
		return false
	}
	b.room(b.topology.hosts(), size)
	switch d := c.Op.Definition(); {
	case d.Slice != contract.Whole: // attaching sends no additional bytes
		return true
	case d.Rooted():
		return size*(b.group.WorldSize-1) <= attachTotal
	}
	return b.algorithmName(c) == algorithmDirect
}

// choose returns the algorithm for the payload.
func (b *Backend) choose(c *sdk.Collective) algorithm {
	switch {
	case b.op.attached || len(c.Buf) == 0:
		return noPayload{}
	case c.Pairwise():
		return &b.algorithms.transfer
	case c.Op != sdk.OpAllReduce:
		return b.algorithms.mesh.start(b, c)
	}
	switch b.algorithmName(c) {
	case algorithmDirect:
		return b.algorithms.direct.start(b, c.Buf)
	case algorithmRing:
		return b.algorithms.ring.start(b, c.Buf)
	case algorithmDoubling:
		return b.algorithms.doubling.start(b, c.Buf, doublingRounds)
	case algorithmTree:
		return b.algorithms.tree.start(b, c.Buf, treeRounds)
	case algorithmHalving:
		return b.algorithms.halving.start(b, c.Buf)
	}
	return b.algorithms.mesh.start(b, c)
}

// algorithmName returns the name of the algorithm for an all-reduce over sockets.
func (b *Backend) algorithmName(c *sdk.Collective) string {
	wanted, half := b.set.algorithm, c.DType.Half()
	inOrder := wanted == algorithmDirect || wanted == algorithmMesh
	switch {
	case wanted == algorithmAuto:
		return b.cost.Cheapest(len(c.Buf), b.topology.hosts(), b.set.reproducible || half)
	case half && !inOrder: // a sum that is passed on would be rounded by every rank
		return algorithmMesh
	}
	return wanted
}

// small reports whether the leaders of hosts send each other the contributions of all of their
// ranks together with the calls, and ranks of a host use their control pages.
func (b *Backend) small(c *sdk.Collective) bool {
	return len(c.Buf) <= stageSize && travelsWithCalls(contributed(c, b.group.WorldSize), b.topology.hosts(), b.topology.largest())
}

// contributed is how many bytes a rank that sends provides to the others.
func contributed(c *sdk.Collective, world int) int {
	d := c.Op.Definition()
	if n := c.Count * c.DType.Size(); d.Slice == contract.ReceiversPart {
		return n * world
	} else if d.Parts(world) > 0 {
		return n
	}
	return 0
}

// partial reports whether hosts add up the contributions of their ranks and then reduce these
// sums among each other by an algorithm for any order. Otherwise sums are passed from host
// to host. Half types are: their sums would be rounded on every host.
func (b *Backend) partial(c *sdk.Collective) bool {
	if b.set.reproducible || c.Op != sdk.OpAllReduce || c.DType.Half() {
		return false
	}
	a, _ := b.cost.BetweenHosts(len(c.Buf), b.topology.hosts(), b.topology.largest(), false)
	return b.alwaysPartial || a != algorithmChain
}

// stages reports whether a call uses the control pages of local ranks.
func stages(c *sdk.Collective) bool {
	if c.Op.Definition().Slice == contract.ReceiversPart {
		return len(c.Buf) <= stageSize
	}
	return c.Count*c.DType.Size() <= stageSize
}
