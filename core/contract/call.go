package contract

import (
	"fmt"

	"github.com/trainctl/trainctl/core/tensor"
)

// Call is the arguments of a collective on one rank, without the memory.
type Call struct {
	Op     Op
	Reduce ReduceOp // where Op reduces
	DType  tensor.DType
	Count  int // elements of one slice, see [Definition]
	Root   int // where Op has one; of Send and Recv the other rank
}

// Size is the number of bytes of a buffer in a group of the given size.
func (c *Call) Size(world int) int {
	return c.Count * c.DType.Size() * c.Op.Definition().Parts(world)
}

// Slice is the part of a rank's buffer that goes from sender to receiver.
func (c *Call) Slice(buf []byte, sender, receiver int) []byte {
	size := c.Count * c.DType.Size()
	return buf[c.Op.Definition().Offset(sender, receiver)*size:][:size]
}

// Wrong returns what is wrong with a call by rank, independent of the other ranks' calls;
// "" if it is valid. Backends also check what depends on their memory.
func (c *Call) Wrong(rank, world int) string {
	d := c.Op.Definition()
	switch {
	case !c.Op.Valid():
		return "unknown operation"
	case d.Kind == NoData:
		return ""
	case !c.DType.Valid() || d.Reduces && !c.Reduce.Accepts(c.DType):
		return "does not support this element type"
	case c.Count < 0:
		return "a negative count"
	case d.RootWord != "" && (c.Root < 0 || c.Root >= world), d.Kind == OfPair && c.Root == rank:
		return fmt.Sprintf("rank %d cannot be the peer in a world of %d", c.Root, world)
	}
	return ""
}
